"""When two subscriptions mean the same query."""

from hashlib import blake2b

import sqlglot
from sqlglot.errors import SqlglotError

from proto.tidewire.v1.commands_pb2 import Subscribe
from proto.tidewire.v1.queries_pb2 import Query

ID_BYTES = 16


def query_of(subscribe: Subscribe) -> Query:
    """The query that a subscription asks for; equal ones have equal ids."""
    template_sql = normalised(subscribe.sql)
    query = Query(
        template_id=blake2b(template_sql.encode(), digest_size=ID_BYTES).digest(),
        template_sql=template_sql,
        parameters=subscribe.parameters,
        filter=subscribe.filter,
        role=subscribe.owner.role,
        text_settings=subscribe.text_settings,
        search_path=subscribe.search_path,
        settings_read=subscribe.settings_read,
    )
    query.query_id = blake2b(query.SerializeToString(deterministic=True), digest_size=ID_BYTES).digest()
    query.sql = subscribe.sql
    return query


def normalised(sql: str) -> str:
    """The SQL without what has no meaning: spaces, comments, the case of keywords. As written if it is not read."""
    try:
        return sqlglot.parse_one(sql, dialect="postgres").sql(dialect="postgres", comments=False)
    except SqlglotError:
        return sql.strip()
