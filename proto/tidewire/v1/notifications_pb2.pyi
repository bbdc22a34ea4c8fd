from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NotificationKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOTIFICATION_KIND_UNSPECIFIED: _ClassVar[NotificationKind]
    NOTIFICATION_KIND_DELTA: _ClassVar[NotificationKind]
    NOTIFICATION_KIND_OVERFLOW: _ClassVar[NotificationKind]
    NOTIFICATION_KIND_INVALIDATED: _ClassVar[NotificationKind]
    NOTIFICATION_KIND_RESUBSCRIBED: _ClassVar[NotificationKind]
    NOTIFICATION_KIND_SILENT: _ClassVar[NotificationKind]
    NOTIFICATION_KIND_FAILED: _ClassVar[NotificationKind]
    NOTIFICATION_KIND_BASE: _ClassVar[NotificationKind]
NOTIFICATION_KIND_UNSPECIFIED: NotificationKind
NOTIFICATION_KIND_DELTA: NotificationKind
NOTIFICATION_KIND_OVERFLOW: NotificationKind
NOTIFICATION_KIND_INVALIDATED: NotificationKind
NOTIFICATION_KIND_RESUBSCRIBED: NotificationKind
NOTIFICATION_KIND_SILENT: NotificationKind
NOTIFICATION_KIND_FAILED: NotificationKind
NOTIFICATION_KIND_BASE: NotificationKind

class NotificationRecord(_message.Message):
    __slots__ = ("epoch", "writer", "fence", "notification", "result")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    NOTIFICATION_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    writer: int
    fence: NotificationFence
    notification: Notification
    result: ResultPart
    def __init__(self, epoch: _Optional[int] = ..., writer: _Optional[int] = ..., fence: _Optional[_Union[NotificationFence, _Mapping]] = ..., notification: _Optional[_Union[Notification, _Mapping]] = ..., result: _Optional[_Union[ResultPart, _Mapping]] = ...) -> None: ...

class NotificationFence(_message.Message):
    __slots__ = ("worker_id",)
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    def __init__(self, worker_id: _Optional[str] = ...) -> None: ...

class Notification(_message.Message):
    __slots__ = ("query_id", "gen", "seq", "lsn", "role", "kind", "payload", "channel", "state_hash", "registered", "sqlstate")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    GEN_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    LSN_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    SQLSTATE_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    gen: int
    seq: int
    lsn: int
    role: str
    kind: NotificationKind
    payload: bytes
    channel: str
    state_hash: bytes
    registered: bool
    sqlstate: str
    def __init__(self, query_id: _Optional[str] = ..., gen: _Optional[int] = ..., seq: _Optional[int] = ..., lsn: _Optional[int] = ..., role: _Optional[str] = ..., kind: _Optional[_Union[NotificationKind, str]] = ..., payload: _Optional[bytes] = ..., channel: _Optional[str] = ..., state_hash: _Optional[bytes] = ..., registered: _Optional[bool] = ..., sqlstate: _Optional[str] = ...) -> None: ...

class ResultPart(_message.Message):
    __slots__ = ("query_id", "gen", "seq", "lsn", "rows", "part", "last", "answers")
    class AnswersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    GEN_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    LSN_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    gen: int
    seq: int
    lsn: int
    rows: bytes
    part: int
    last: bool
    answers: _containers.ScalarMap[str, int]
    def __init__(self, query_id: _Optional[str] = ..., gen: _Optional[int] = ..., seq: _Optional[int] = ..., lsn: _Optional[int] = ..., rows: _Optional[bytes] = ..., part: _Optional[int] = ..., last: _Optional[bool] = ..., answers: _Optional[_Mapping[str, int]] = ...) -> None: ...
