"""What a CDC subscription is: whose, of what, which events and how they look; and its record in `cursors`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import orjson
from msgspec import Struct

from proto.tidewire.v1.cursors_pb2 import CdcFilter, CdcFormat, CdcQuery, CdcSubscription, CdcTable
from services.gateway.core.http_identity import HttpIdentity, ServiceRole
from services.gateway.errors import RpcRefused

OPS = ("insert", "update", "delete")
FORMATS = {
    "objects_json": CdcFormat.CDC_FORMAT_OBJECTS_JSON,
    "plain_json": CdcFormat.CDC_FORMAT_PLAIN_JSON,
}
PRIVILEGED: tuple[ServiceRole, ...] = ("system", "dba", "service")
MOST_COLUMNS = 1600


class Owner(Struct, frozen=True, kw_only=True):
    """Whose a subscription is, and by which rights it is read (decision 19)."""

    name: str
    database_role: str | None
    service_role: str
    # The service role is one by membership of the database role, not by a token.
    is_login: bool = False

    @property
    def is_privileged(self) -> bool:
        return self.service_role in PRIVILEGED

    @property
    def is_operator(self) -> bool:
        """Who may look at and stop what is others'."""
        return self.service_role in ("system", "dba")

    @classmethod
    def of(cls, caller: HttpIdentity) -> "Owner":
        return cls(
            name=caller.name,
            database_role=caller.database_role,
            service_role=caller.service_role,
            is_login=caller.method == "basic",
        )


class KeyFilter(Struct, frozen=True, kw_only=True):
    """Texts as PostgreSQL prints them in the key's own type."""

    exact: tuple[str, ...] | None = None
    lower: str | None = None
    upper: str | None = None

    @property
    def is_range(self) -> bool:
        return self.lower is not None or self.upper is not None


class Wishes(Struct, frozen=True, kw_only=True):
    """What was asked for, apart from the table or query; literals as they were sent."""

    ops: tuple[str, ...] = OPS
    columns: tuple[str, ...] = ()
    pk: tuple[Any, ...] | None = None
    has_range: bool = False
    lower_bound: Any = None
    upper_bound: Any = None
    before: bool = False
    after: bool = False
    changed_keys: bool = False
    format: Literal["objects_json", "plain_json"] = "objects_json"

    @property
    def needs_old_rows(self) -> bool:
        """Whether an old row's other columns than its key decide or are shown."""
        return self.before or (bool(self.columns) and ("update" in self.ops or "delete" in self.ops))


class Subscription(Struct, frozen=True, kw_only=True):
    sub_id: str
    owner: Owner
    start: int
    history: int
    wishes: Wishes
    # What its owner's right rested on when it was made.
    grounds: frozenset[str] = frozenset()
    # One of the two.
    table: tuple[int, str, str] | None = None  # oid, schema, name
    query: tuple[str, tuple[Any, ...]] | None = None  # query_id, args


def wishes_of(params: Mapping[str, Any]) -> Wishes:
    """Read and judge what can be judged without the table."""
    include = _object(params, "include")
    pk_range = params.get("pk_range")
    lower, upper = None, None
    if pk_range is not None:
        if not isinstance(pk_range, dict):
            raise _bad("pk_range must be an object", "pk_range")
        lower, upper = pk_range.get("lower_bound"), pk_range.get("upper_bound")
        if lower is None and upper is None:
            raise _bad("cdc pk_range requires at least one bound", "pk_range")
    pk = params.get("pk")
    if pk is not None and not isinstance(pk, list):
        raise _bad("pk must be a list of typed literals", "pk")
    form = params.get("format")
    if form not in (None, *FORMATS):
        raise _bad(f"unknown cdc format {form!r}: objects_json or plain_json", "format")
    return Wishes(
        ops=_ops(params.get("ops")),
        columns=_columns(params.get("columns")),
        pk=None if pk is None else tuple(pk),
        has_range=pk_range is not None,
        lower_bound=lower,
        upper_bound=upper,
        before=_flag(include, "before"),
        after=_flag(include, "after"),
        changed_keys=_flag(include, "changed_keys"),
        format=form or "objects_json",
    )


def _ops(given: Any) -> tuple[str, ...]:
    if given is None:
        return OPS
    if not isinstance(given, list) or not given:
        raise _bad("ops must be a list of insert, update and delete", "ops")
    named = [str(op).lower() if isinstance(op, str) else "" for op in given]
    for op, name in zip(given, named, strict=True):
        if name not in OPS:
            raise _bad(f"unknown cdc op {op!r}: insert, update or delete", "ops")
    return tuple(op for op in OPS if op in named)


def _columns(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not given or not all(isinstance(name, str) and name for name in given):
        raise _bad("columns must be a list of column names", "columns")
    if len(given) > MOST_COLUMNS:
        raise _bad(f"columns has more than {MOST_COLUMNS} names", "columns")
    return tuple(dict.fromkeys(given))


def _object(params: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    given = params.get(name)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise _bad(f"{name} must be an object", name)
    return given


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise _bad(f"include.{name} must be true or false", f"include.{name}")
    return value


def _bad(message: str, field: str) -> RpcRefused:
    return RpcRefused("invalid_request", message, details={"field": field})


def to_record(subscription: Subscription) -> CdcSubscription:
    wishes, owner = subscription.wishes, subscription.owner
    record = CdcSubscription(
        sub_id=subscription.sub_id,
        principal=owner.name,
        database_role=owner.database_role or "",
        service_role=owner.service_role,
        history=subscription.history,
        start_seq=subscription.start,
        include_before=wishes.before,
        include_after=wishes.after,
        include_changed_keys=wishes.changed_keys,
        format=FORMATS[wishes.format],
        grounds=sorted(subscription.grounds),
        filter=CdcFilter(
            ops=wishes.ops,
            columns=wishes.columns,
            pk=_dumped(wishes.pk or ()),
            lower_bound=None if wishes.lower_bound is None else orjson.dumps(wishes.lower_bound),
            upper_bound=None if wishes.upper_bound is None else orjson.dumps(wishes.upper_bound),
        ),
    )
    if subscription.table is not None:
        oid, schema, name = subscription.table
        record.table.CopyFrom(CdcTable(oid=oid, schema=schema, name=name))
    if subscription.query is not None:
        query_id, args = subscription.query
        record.query.CopyFrom(CdcQuery(query_id=query_id, args=_dumped(args)))
    return record


def from_record(record: CdcSubscription) -> Subscription:
    kept = record.filter
    wishes = Wishes(
        ops=tuple(kept.ops),
        columns=tuple(kept.columns),
        pk=tuple(map(orjson.loads, kept.pk)) or None,
        has_range=kept.HasField("lower_bound") or kept.HasField("upper_bound"),
        lower_bound=orjson.loads(kept.lower_bound) if kept.HasField("lower_bound") else None,
        upper_bound=orjson.loads(kept.upper_bound) if kept.HasField("upper_bound") else None,
        before=record.include_before,
        after=record.include_after,
        changed_keys=record.include_changed_keys,
        format="plain_json" if record.format == CdcFormat.CDC_FORMAT_PLAIN_JSON else "objects_json",
    )
    of_table = record.HasField("table")
    return Subscription(
        sub_id=record.sub_id,
        owner=Owner(
            name=record.principal, database_role=record.database_role or None, service_role=record.service_role
        ),
        start=record.start_seq,
        history=record.history,
        wishes=wishes,
        grounds=frozenset(record.grounds),
        table=(record.table.oid, record.table.schema, record.table.name) if of_table else None,
        query=None if of_table else (record.query.query_id, tuple(map(orjson.loads, record.query.args))),
    )


def _dumped(literals: Sequence[Any]) -> list[bytes]:
    return [orjson.dumps(literal) for literal in literals]
