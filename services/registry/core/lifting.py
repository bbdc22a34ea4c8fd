"""Which literals of a query become parameters, so that queries that differ in them alone are one template.

The text is never printed by a parser: its tokens stay, and a literal's token gives way to a parameter. sqlglot's tree
tells in which clause a literal stands. A literal is lifted only where a parameter of its type means the same to
PostgreSQL: as a whole operand of a comparison, BETWEEN or IN with columns on the other side, in a WHERE or ON that
decides which rows there are (or beside an aggregate in HAVING). Elsewhere its value may matter to the grammar (LIMIT,
ordinals), to the matching of expressions (GROUP BY, DISTINCT), or to the type of the result.
"""

import re
from functools import lru_cache

from msgspec import Struct
from sqlglot import exp

from proto.tidewire.v1.commands_pb2 import Parameter
from services.registry.core.lexing import Kind, Token, Unlexed, same, tokens, written
from services.sqlguard.parser_limits import parsed_within_limits

INT4, INT8, NUMERIC, UNKNOWN = 23, 20, 1700, 705
# A list longer than this is its own template: hundreds of parameters help nobody.
MOST_IN_LIST = 16
MOST_LIFTED = 200
REMEMBERED = 4096
# A longer text was written by a program, and hardly shares its template.
MOST_CHARACTERS = 20_000

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
# What may stand directly before and behind a literal that is a whole operand: all bind less than a comparison does.
_BEFORE = re.compile(r"[=<>(,]|<>|!=|<=|>=|between|symmetric|and|from|where|on|or|not|having")
_BEHIND = re.compile(
    r"[=<>),]|<>|!=|<=|>=|and|or|group|order|limit|offset|fetch|having|window|union|intersect|except"
    r"|left|right|inner|join|cross|full|natural|where"
)
_ROW_CLAUSES = frozenset({"where", "from", "from_", "joins", "with", "with_", "laterals"})
_NUMBER = re.compile(r"[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")
# PostgreSQL replaces these by the present time: they are no constants.
_MOMENTS = re.compile(r"\b(now|today|tomorrow|yesterday)\b", re.IGNORECASE)


class Lifted(Struct, frozen=True):
    """A text in its one form, with the values and types that were lifted out of it."""

    sql: str
    values: tuple[bytes, ...] = ()
    types: tuple[int, ...] = ()

    @property
    def parameters(self) -> list[Parameter]:
        return [Parameter(value=value, type_oid=oid) for value, oid in zip(self.values, self.types, strict=True)]


def lifted(sql: str, given: int) -> Lifted:
    """The template of a query that has `given` parameters already; the lifted ones follow them."""
    return _lifted(sql, given) if len(sql) <= MOST_CHARACTERS else Lifted(sql)


@lru_cache(REMEMBERED)
def _lifted(sql: str, given: int) -> Lifted:
    try:
        words = _statement(sql)
    except Unlexed:
        return Lifted(sql)
    numbers = [int(word.text[1:]) for word in words if word.kind is Kind.PARAMETER]
    places = _liftable(words) if max(numbers, default=0) <= given else []
    template, values, types = list(words), [], []
    for place in places:
        negative = words[place - 1].text == "-"
        value, oid = _typed(words[place], negative)
        values.append(value)
        types.append(oid)
        template[place] = Token(Kind.PARAMETER, f"${given + len(values)}")
        if negative:
            template[place - 1] = Token(Kind.SIGN, "")
    template = [word for word in template if word.text]
    text = written(template)
    if not same(_statement(text), template):
        return Lifted(sql)
    return Lifted(text, tuple(values), tuple(types))


def normalised(sql: str) -> str:
    """The text in its one form, nothing lifted: spaces, comments and the case of plain words have no meaning."""
    try:
        words = tokens(sql)
        text = written(words)
        return text if same(tokens(text), words) else sql
    except Unlexed:
        return sql


def _statement(sql: str) -> list[Token]:
    words = tokens(sql)
    while words and words[-1].text == ";":
        words.pop()
    return words


def _typed(word: Token, negative: bool) -> tuple[bytes, int]:
    """The value and its type, as make_const of PostgreSQL's parse_node.c chooses it."""
    if word.kind is Kind.STRING:
        return word.text[1:-1].replace("''", "'").encode(), UNKNOWN
    text = f"-{word.text}" if negative else word.text
    if not word.text.isdigit():
        return text.encode(), NUMERIC
    value = int(text)
    for oid, bits in ((INT4, 31), (INT8, 63)):
        if -(1 << bits) <= value < 1 << bits:
            return str(value).encode(), oid
    return text.encode(), NUMERIC


def _liftable(words: list[Token]) -> list[int]:
    """The places of the literals that may be lifted."""
    candidates = [place for place, word in enumerate(words) if _is_value(word) and _stands_alone(words, place)]
    if not candidates or len(candidates) > MOST_LIFTED:
        return []
    # Each literal gets a text of its own, by which it is found again in the tree.
    probe, names = list(words), {}
    for place in candidates:
        number = str(7_000_000_000 + place)
        names[number] = place
        probe[place] = Token(words[place].kind, f"'{number}'" if words[place].kind is Kind.STRING else number)
    try:
        tree = parsed_within_limits(written(probe))
    except Exception:  # whatever a client's text does to the parser, it must not stop the registry
        return []
    if not isinstance(tree, exp.Query):
        return []
    found: dict[int, list[exp.Literal]] = {}
    for literal in tree.find_all(exp.Literal):
        if literal.name in names:
            found.setdefault(names[literal.name], []).append(literal)
    return sorted(place for place, literals in found.items() if len(literals) == 1 and _may_lift(literals[0]))


def _is_value(word: Token) -> bool:
    if word.kind is Kind.STRING:
        return "\\" not in word.text and not _MOMENTS.search(word.text)
    return word.kind is Kind.NUMBER and _NUMBER.fullmatch(word.text) is not None


def _stands_alone(words: list[Token], place: int) -> bool:
    before = place - 1
    if words[place].kind is Kind.NUMBER and before > 0 and words[before].text == "-":
        before -= 1
    behind = place + 1
    if before < 0 or words[before].kind in (Kind.QUOTED_NAME, Kind.STRING, Kind.OTHER_STRING):
        return False
    if not _BEFORE.fullmatch(words[before].text):
        return False
    return behind == len(words) or _BEHIND.fullmatch(words[behind].text) is not None


def _may_lift(literal: exp.Expr) -> bool:
    operand = literal.parent if isinstance(literal.parent, exp.Neg) else literal
    comparison = operand.parent
    if isinstance(comparison, exp.In):
        members = comparison.expressions
        others = [comparison.this]
        if len(members) > MOST_IN_LIST or not any(member is operand for member in members):
            return False
    elif isinstance(comparison, exp.Between | exp.Binary) and isinstance(comparison, (exp.Between, *_COMPARISONS)):
        others = [one for one in comparison.iter_expressions() if one is not operand]
    else:
        return False
    if any(one.find(exp.Any, exp.All, exp.Tuple) for one in others):
        return False
    clause: exp.Expr = comparison
    while isinstance(clause.parent, exp.And | exp.Or | exp.Not | exp.Paren):
        clause = clause.parent
    owner = clause.parent
    if isinstance(owner, exp.Having):
        return all(one.find(exp.AggFunc) for one in others) and _decides_rows(owner.parent)
    is_condition = isinstance(owner, exp.Where) or (isinstance(owner, exp.Join) and clause.arg_key == "on")
    return is_condition and any(one.find(exp.Column) for one in others) and _decides_rows(owner)


def _decides_rows(node: exp.Expr | None) -> bool:
    """Whether it only decides which rows there are: nothing above it is matched, grouped or selected."""
    while node is not None and node.parent is not None:
        if isinstance(node.parent, exp.Select) and node.arg_key not in _ROW_CLAUSES:
            return False
        if isinstance(node.parent, exp.AggFunc | exp.Filter | exp.Window):
            return False
        node = node.parent
    return True
