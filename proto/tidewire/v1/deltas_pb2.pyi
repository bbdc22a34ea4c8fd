from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeltaKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELTA_KIND_UNSPECIFIED: _ClassVar[DeltaKind]
    DELTA_KIND_NET: _ClassVar[DeltaKind]
    DELTA_KIND_FULL: _ClassVar[DeltaKind]
    DELTA_KIND_ERROR: _ClassVar[DeltaKind]
    DELTA_KIND_PROGRESS: _ClassVar[DeltaKind]

class FullReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FULL_REASON_UNSPECIFIED: _ClassVar[FullReason]
    FULL_REASON_FIRST: _ClassVar[FullReason]
    FULL_REASON_STATE_LOST: _ClassVar[FullReason]
    FULL_REASON_HASH_MISMATCH: _ClassVar[FullReason]
    FULL_REASON_SCHEMA_CHANGED: _ClassVar[FullReason]
    FULL_REASON_REORDERED: _ClassVar[FullReason]
    FULL_REASON_NEW_HISTORY: _ClassVar[FullReason]
    FULL_REASON_RECOVERED: _ClassVar[FullReason]
DELTA_KIND_UNSPECIFIED: DeltaKind
DELTA_KIND_NET: DeltaKind
DELTA_KIND_FULL: DeltaKind
DELTA_KIND_ERROR: DeltaKind
DELTA_KIND_PROGRESS: DeltaKind
FULL_REASON_UNSPECIFIED: FullReason
FULL_REASON_FIRST: FullReason
FULL_REASON_STATE_LOST: FullReason
FULL_REASON_HASH_MISMATCH: FullReason
FULL_REASON_SCHEMA_CHANGED: FullReason
FULL_REASON_REORDERED: FullReason
FULL_REASON_NEW_HISTORY: FullReason
FULL_REASON_RECOVERED: FullReason

class DeltaRecord(_message.Message):
    __slots__ = ("epoch", "writer", "fence", "delta", "snapshot")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    writer: int
    fence: DeltaFence
    delta: Delta
    snapshot: Snapshot
    def __init__(self, epoch: _Optional[int] = ..., writer: _Optional[int] = ..., fence: _Optional[_Union[DeltaFence, _Mapping]] = ..., delta: _Optional[_Union[Delta, _Mapping]] = ..., snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class DeltaFence(_message.Message):
    __slots__ = ("worker_id", "history")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    history: int
    def __init__(self, worker_id: _Optional[str] = ..., history: _Optional[int] = ...) -> None: ...

class Delta(_message.Message):
    __slots__ = ("query_id", "from_lsn", "to_lsn", "moment_us", "from_moment_us", "history", "kind", "rows", "part", "last", "columns", "key_positions", "state_hash", "row_count", "full_reason", "error_sqlstate", "error_message", "recompute_count")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_LSN_FIELD_NUMBER: _ClassVar[int]
    TO_LSN_FIELD_NUMBER: _ClassVar[int]
    MOMENT_US_FIELD_NUMBER: _ClassVar[int]
    FROM_MOMENT_US_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    KEY_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    FULL_REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_SQLSTATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTE_COUNT_FIELD_NUMBER: _ClassVar[int]
    query_id: bytes
    from_lsn: int
    to_lsn: int
    moment_us: int
    from_moment_us: int
    history: int
    kind: DeltaKind
    rows: bytes
    part: int
    last: bool
    columns: _containers.RepeatedCompositeFieldContainer[ResultColumn]
    key_positions: _containers.RepeatedScalarFieldContainer[int]
    state_hash: bytes
    row_count: int
    full_reason: FullReason
    error_sqlstate: str
    error_message: str
    recompute_count: int
    def __init__(self, query_id: _Optional[bytes] = ..., from_lsn: _Optional[int] = ..., to_lsn: _Optional[int] = ..., moment_us: _Optional[int] = ..., from_moment_us: _Optional[int] = ..., history: _Optional[int] = ..., kind: _Optional[_Union[DeltaKind, str]] = ..., rows: _Optional[bytes] = ..., part: _Optional[int] = ..., last: _Optional[bool] = ..., columns: _Optional[_Iterable[_Union[ResultColumn, _Mapping]]] = ..., key_positions: _Optional[_Iterable[int]] = ..., state_hash: _Optional[bytes] = ..., row_count: _Optional[int] = ..., full_reason: _Optional[_Union[FullReason, str]] = ..., error_sqlstate: _Optional[str] = ..., error_message: _Optional[str] = ..., recompute_count: _Optional[int] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("request_id", "gateway_id", "delivery_partition", "result")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_PARTITION_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    gateway_id: str
    delivery_partition: int
    result: Delta
    def __init__(self, request_id: _Optional[bytes] = ..., gateway_id: _Optional[str] = ..., delivery_partition: _Optional[int] = ..., result: _Optional[_Union[Delta, _Mapping]] = ...) -> None: ...

class ResultColumn(_message.Message):
    __slots__ = ("name", "type_oid", "type_modifier")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_OID_FIELD_NUMBER: _ClassVar[int]
    TYPE_MODIFIER_FIELD_NUMBER: _ClassVar[int]
    name: str
    type_oid: int
    type_modifier: int
    def __init__(self, name: _Optional[str] = ..., type_oid: _Optional[int] = ..., type_modifier: _Optional[int] = ...) -> None: ...
