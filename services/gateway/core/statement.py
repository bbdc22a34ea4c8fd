"""What a client may subscribe to, as far as the text of it tells."""

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from services.chassis.refusal import ONLY_SELECT
from services.gateway.errors import SubscribeRefused

_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Into, exp.Lock)
# What PostgreSQL takes for spaces; others may be part of a name.
_BLANK = " \t\n\r\f\v"
_SELECTS = ("select", "with", "values", "table", "(")


def bare(sql: str) -> str:
    """The statement without the semicolon that may end it."""
    return sql.strip(_BLANK).removesuffix(";").strip(_BLANK)


def refuse_unless_select(sql: str) -> None:
    """Refuse what is not a pure SELECT by its text.

    PostgreSQL has read the statement before, so what our parser does not read is judged by its first word: on a
    read-only transaction a writing statement fails as well.
    """
    tree = _tree(sql)
    if tree is None:
        if not bare(sql).lower().startswith(_SELECTS):
            raise SubscribeRefused(ONLY_SELECT, numbered=True)
    elif not isinstance(tree, exp.Query | exp.Values) or tree.find(*_WRITES) is not None:
        raise SubscribeRefused(ONLY_SELECT, numbered=True)


def relation_names(sql: str) -> set[tuple[str, str]]:
    """The names in places where a relation may be meant, folded, each with its schema or an empty one.

    Names of CTEs are among them: only PostgreSQL knows where which is meant. Empty if our parser does not read it.
    """
    tree = _tree(sql)
    if tree is None:
        return set()
    return {
        (_folded(table.args.get("db")), _folded(table.this))
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and not table.args.get("catalog")
    }


def refuse_unless_condition(filter_sql: str) -> None:
    try:
        sqlglot.parse_one(filter_sql, into=exp.Condition, dialect="postgres")
    except Exception as error:
        words = error.errors[0]["description"] if isinstance(error, ParseError) and error.errors else str(error)
        raise SubscribeRefused(f"Filter parse error: {words}", numbered=False) from error


def _tree(sql: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(sql, dialect="postgres")
    except Exception:  # whatever a client's text does to the parser, it must not end the connection
        return None


def _folded(name: exp.Identifier | None) -> str:
    """As PostgreSQL folds it: only ASCII letters, and only without quotes."""
    if name is None:
        return ""
    text = name.name
    return text if name.quoted else "".join(letter.lower() if letter.isascii() else letter for letter in text)
