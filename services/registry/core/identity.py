"""When two subscriptions mean the same query, and when two queries share a template."""

from collections.abc import Iterable
from hashlib import blake2b

from proto.tidewire.v1.commands_pb2 import Parameter, ResolvedName, Subscribe
from proto.tidewire.v1.queries_pb2 import Query
from services.registry.core.lifting import lifted, normalised

ID_BYTES = 16


def query_of(subscribe: Subscribe) -> Query:
    """The query that a subscription asks for; equal ones have equal ids.

    A template is all that decides how a query is kept; a query is a template with the values of its parameters.
    """
    template = lifted(subscribe.sql, len(subscribe.parameters))
    names: list[ResolvedName] = sorted(subscribe.names, key=_written)
    query = Query(
        template_sql=template.sql,
        filter=normalised(subscribe.filter),
        names=names,
        role=subscribe.owner.role,
        login=subscribe.owner.login,
        text_settings=subscribe.text_settings,
        search_path=subscribe.search_path,
        settings_read=subscribe.settings_read,
    )
    parameters = [*subscribe.parameters, *template.parameters]
    query.template_id = _hash(query, (Parameter(type_oid=parameter.type_oid) for parameter in parameters))
    query.query_id = _hash(query, parameters)
    query.parameters.extend(parameters)
    query.sql = subscribe.sql
    return query


def _written(name: ResolvedName) -> tuple[str, str, int]:
    return name.written_schema, name.written_name, name.oid


def _hash(query: Query, parameters: Iterable[Parameter]) -> bytes:
    hashed = Query()
    hashed.CopyFrom(query)
    hashed.parameters.extend(parameters)
    return blake2b(hashed.SerializeToString(deterministic=True), digest_size=ID_BYTES).digest()
