from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CdcFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CDC_FORMAT_UNSPECIFIED: _ClassVar[CdcFormat]
    CDC_FORMAT_OBJECTS_JSON: _ClassVar[CdcFormat]
    CDC_FORMAT_PLAIN_JSON: _ClassVar[CdcFormat]
CDC_FORMAT_UNSPECIFIED: CdcFormat
CDC_FORMAT_OBJECTS_JSON: CdcFormat
CDC_FORMAT_PLAIN_JSON: CdcFormat

class CursorRecord(_message.Message):
    __slots__ = ("written_us", "cdc_subscription", "cdc_cursor", "group_offset", "prepared_query")
    WRITTEN_US_FIELD_NUMBER: _ClassVar[int]
    CDC_SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CDC_CURSOR_FIELD_NUMBER: _ClassVar[int]
    GROUP_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PREPARED_QUERY_FIELD_NUMBER: _ClassVar[int]
    written_us: int
    cdc_subscription: CdcSubscription
    cdc_cursor: CdcCursor
    group_offset: GroupOffset
    prepared_query: PreparedQuery
    def __init__(self, written_us: _Optional[int] = ..., cdc_subscription: _Optional[_Union[CdcSubscription, _Mapping]] = ..., cdc_cursor: _Optional[_Union[CdcCursor, _Mapping]] = ..., group_offset: _Optional[_Union[GroupOffset, _Mapping]] = ..., prepared_query: _Optional[_Union[PreparedQuery, _Mapping]] = ...) -> None: ...

class CdcSubscription(_message.Message):
    __slots__ = ("sub_id", "principal", "database_role", "service_role", "history", "start_seq", "table", "query", "filter", "include_before", "include_after", "format", "include_changed_keys", "grounds")
    SUB_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ROLE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ROLE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    START_SEQ_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_BEFORE_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_AFTER_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_CHANGED_KEYS_FIELD_NUMBER: _ClassVar[int]
    GROUNDS_FIELD_NUMBER: _ClassVar[int]
    sub_id: str
    principal: str
    database_role: str
    service_role: str
    history: int
    start_seq: int
    table: CdcTable
    query: CdcQuery
    filter: CdcFilter
    include_before: bool
    include_after: bool
    format: CdcFormat
    include_changed_keys: bool
    grounds: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sub_id: _Optional[str] = ..., principal: _Optional[str] = ..., database_role: _Optional[str] = ..., service_role: _Optional[str] = ..., history: _Optional[int] = ..., start_seq: _Optional[int] = ..., table: _Optional[_Union[CdcTable, _Mapping]] = ..., query: _Optional[_Union[CdcQuery, _Mapping]] = ..., filter: _Optional[_Union[CdcFilter, _Mapping]] = ..., include_before: _Optional[bool] = ..., include_after: _Optional[bool] = ..., format: _Optional[_Union[CdcFormat, str]] = ..., include_changed_keys: _Optional[bool] = ..., grounds: _Optional[_Iterable[str]] = ...) -> None: ...

class CdcTable(_message.Message):
    __slots__ = ("oid", "schema", "name")
    OID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    oid: int
    schema: str
    name: str
    def __init__(self, oid: _Optional[int] = ..., schema: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class CdcQuery(_message.Message):
    __slots__ = ("query_id", "args")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    args: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, query_id: _Optional[str] = ..., args: _Optional[_Iterable[bytes]] = ...) -> None: ...

class PreparedQuery(_message.Message):
    __slots__ = ("query_id", "principal", "database_role", "sql")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ROLE_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    principal: str
    database_role: str
    sql: str
    def __init__(self, query_id: _Optional[str] = ..., principal: _Optional[str] = ..., database_role: _Optional[str] = ..., sql: _Optional[str] = ...) -> None: ...

class CdcFilter(_message.Message):
    __slots__ = ("ops", "columns", "pk", "lower_bound", "upper_bound")
    OPS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PK_FIELD_NUMBER: _ClassVar[int]
    LOWER_BOUND_FIELD_NUMBER: _ClassVar[int]
    UPPER_BOUND_FIELD_NUMBER: _ClassVar[int]
    ops: _containers.RepeatedScalarFieldContainer[str]
    columns: _containers.RepeatedScalarFieldContainer[str]
    pk: _containers.RepeatedScalarFieldContainer[bytes]
    lower_bound: bytes
    upper_bound: bytes
    def __init__(self, ops: _Optional[_Iterable[str]] = ..., columns: _Optional[_Iterable[str]] = ..., pk: _Optional[_Iterable[bytes]] = ..., lower_bound: _Optional[bytes] = ..., upper_bound: _Optional[bytes] = ...) -> None: ...

class CdcCursor(_message.Message):
    __slots__ = ("sub_id", "history", "acked_seq", "paused", "flag_version")
    SUB_ID_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    ACKED_SEQ_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    FLAG_VERSION_FIELD_NUMBER: _ClassVar[int]
    sub_id: str
    history: int
    acked_seq: int
    paused: bool
    flag_version: int
    def __init__(self, sub_id: _Optional[str] = ..., history: _Optional[int] = ..., acked_seq: _Optional[int] = ..., paused: _Optional[bool] = ..., flag_version: _Optional[int] = ...) -> None: ...

class GroupOffset(_message.Message):
    __slots__ = ("topic_id", "group_id", "partition", "generation", "last_acked_offset", "anchor_offset", "retired_beyond")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LAST_ACKED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RETIRED_BEYOND_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    group_id: str
    partition: int
    generation: int
    last_acked_offset: int
    anchor_offset: int
    retired_beyond: _containers.RepeatedCompositeFieldContainer[OffsetRange]
    def __init__(self, topic_id: _Optional[str] = ..., group_id: _Optional[str] = ..., partition: _Optional[int] = ..., generation: _Optional[int] = ..., last_acked_offset: _Optional[int] = ..., anchor_offset: _Optional[int] = ..., retired_beyond: _Optional[_Iterable[_Union[OffsetRange, _Mapping]]] = ...) -> None: ...

class OffsetRange(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...
