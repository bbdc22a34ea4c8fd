"""What a client may subscribe to, as far as the text of it tells."""

from sqlglot import exp
from sqlglot.errors import ParseError

from services.gateway.errors import RefusalCode, SubscribeRefused
from services.sqlguard.parser_limits import parsed_within_limits

# What PostgreSQL takes for spaces; others may be part of a name.
_BLANK = " \t\n\r\f\v"


def bare(sql: str) -> str:
    """The statement without the semicolon that may end it."""
    return sql.strip(_BLANK).removesuffix(";").strip(_BLANK)


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
        parsed_within_limits(filter_sql, into=exp.Condition)
    except Exception as error:
        words = error.errors[0]["description"] if isinstance(error, ParseError) and error.errors else str(error)
        raise SubscribeRefused(RefusalCode.FILTER_ERROR, f"Filter parse error: {words}") from error


def _tree(sql: str) -> exp.Expr | None:
    try:
        return parsed_within_limits(sql)
    except Exception:  # whatever a client's text does to the parser, it must not end the connection
        return None


def _folded(name: exp.Identifier | None) -> str:
    """As PostgreSQL folds it: only ASCII letters, and only without quotes."""
    if name is None:
        return ""
    text = name.name
    return text if name.quoted else "".join(letter.lower() if letter.isascii() else letter for letter in text)
