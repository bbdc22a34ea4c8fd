"""What a client may subscribe to, as far as the text of it tells."""

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from services.gateway.errors import SubscribeRefused

ONLY_SELECT = "Only SELECT queries can be subscribed to"
_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Into, exp.Lock)
_SELECTS = ("select", "with", "values", "table", "(")


def bare(sql: str) -> str:
    """The statement without the semicolon that may end it."""
    return sql.strip().removesuffix(";").strip()


def refuse_unless_select(sql: str) -> int:
    """Refuse what is not a pure SELECT, and return how many tables it reads.

    PostgreSQL has read the statement before, so what our parser does not read is judged by its first word: on a
    read-only transaction a writing statement fails as well.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="postgres")
    except SqlglotError:
        if not bare(sql).lower().startswith(_SELECTS):
            raise SubscribeRefused(ONLY_SELECT, numbered=True) from None
        return 0
    if not isinstance(tree, exp.Query | exp.Values) or tree.find(*_WRITES) is not None:
        raise SubscribeRefused(ONLY_SELECT, numbered=True)
    inner = {name.alias_or_name for name in tree.find_all(exp.CTE)}
    return len({table.sql() for table in map(_reference, tree.find_all(exp.Table)) if table.name not in inner})


def refuse_unless_condition(filter_sql: str) -> None:
    try:
        sqlglot.parse_one(filter_sql, into=exp.Condition, dialect="postgres")
    except SqlglotError as error:
        words = error.errors[0]["description"] if isinstance(error, ParseError) and error.errors else str(error)
        raise SubscribeRefused(f"Filter parse error: {words}", numbered=False) from error


def _reference(table: exp.Table) -> exp.Table:
    return exp.Table(this=table.this, db=table.args.get("db"))
