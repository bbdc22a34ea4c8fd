from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Status(_message.Message):
    __slots__ = ("service", "instance", "host", "pid", "version", "started_us", "written_us", "every_ms", "ready", "reason", "figures", "queries", "queries_total", "tables", "is_last")
    class FiguresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_US_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_US_FIELD_NUMBER: _ClassVar[int]
    EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    QUERIES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    service: str
    instance: str
    host: str
    pid: int
    version: str
    started_us: int
    written_us: int
    every_ms: int
    ready: bool
    reason: str
    figures: _containers.ScalarMap[str, float]
    queries: _containers.RepeatedCompositeFieldContainer[LiveQueryStatus]
    queries_total: int
    tables: _containers.RepeatedCompositeFieldContainer[ReplicaStatus]
    is_last: bool
    def __init__(self, service: _Optional[str] = ..., instance: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., version: _Optional[str] = ..., started_us: _Optional[int] = ..., written_us: _Optional[int] = ..., every_ms: _Optional[int] = ..., ready: _Optional[bool] = ..., reason: _Optional[str] = ..., figures: _Optional[_Mapping[str, float]] = ..., queries: _Optional[_Iterable[_Union[LiveQueryStatus, _Mapping]]] = ..., queries_total: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[ReplicaStatus, _Mapping]]] = ..., is_last: _Optional[bool] = ...) -> None: ...

class LiveQueryStatus(_message.Message):
    __slots__ = ("query_id", "template_id", "sql", "role", "strategy", "why_not", "tables", "rows", "error", "by", "latency_ms", "spark_sql")
    class WhyNotEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_ID_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    WHY_NOT_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    SPARK_SQL_FIELD_NUMBER: _ClassVar[int]
    query_id: bytes
    template_id: bytes
    sql: str
    role: str
    strategy: str
    why_not: _containers.ScalarMap[str, str]
    tables: _containers.RepeatedScalarFieldContainer[str]
    rows: int
    error: str
    by: str
    latency_ms: float
    spark_sql: str
    def __init__(self, query_id: _Optional[bytes] = ..., template_id: _Optional[bytes] = ..., sql: _Optional[str] = ..., role: _Optional[str] = ..., strategy: _Optional[str] = ..., why_not: _Optional[_Mapping[str, str]] = ..., tables: _Optional[_Iterable[str]] = ..., rows: _Optional[int] = ..., error: _Optional[str] = ..., by: _Optional[str] = ..., latency_ms: _Optional[float] = ..., spark_sql: _Optional[str] = ...) -> None: ...

class ReplicaStatus(_message.Message):
    __slots__ = ("oid", "name", "phase", "rows", "overlay_rows")
    OID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    OVERLAY_ROWS_FIELD_NUMBER: _ClassVar[int]
    oid: int
    name: str
    phase: str
    rows: int
    overlay_rows: int
    def __init__(self, oid: _Optional[int] = ..., name: _Optional[str] = ..., phase: _Optional[str] = ..., rows: _Optional[int] = ..., overlay_rows: _Optional[int] = ...) -> None: ...
