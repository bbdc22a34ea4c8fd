from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TopicOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOPIC_OPERATION_UNSPECIFIED: _ClassVar[TopicOperation]
    TOPIC_OPERATION_INSERT: _ClassVar[TopicOperation]
    TOPIC_OPERATION_UPDATE: _ClassVar[TopicOperation]
    TOPIC_OPERATION_DELETE: _ClassVar[TopicOperation]

class TopicPayload(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOPIC_PAYLOAD_UNSPECIFIED: _ClassVar[TopicPayload]
    TOPIC_PAYLOAD_KEY: _ClassVar[TopicPayload]
    TOPIC_PAYLOAD_FULL: _ClassVar[TopicPayload]
    TOPIC_PAYLOAD_DIFF: _ClassVar[TopicPayload]
TOPIC_OPERATION_UNSPECIFIED: TopicOperation
TOPIC_OPERATION_INSERT: TopicOperation
TOPIC_OPERATION_UPDATE: TopicOperation
TOPIC_OPERATION_DELETE: TopicOperation
TOPIC_PAYLOAD_UNSPECIFIED: TopicPayload
TOPIC_PAYLOAD_KEY: TopicPayload
TOPIC_PAYLOAD_FULL: TopicPayload
TOPIC_PAYLOAD_DIFF: TopicPayload

class TopicMessage(_message.Message):
    __slots__ = ("topic_id", "partition", "offset", "history", "seq", "lsn", "ordinal", "route", "committed_us", "source_schema", "source_table", "operation", "payload_mode", "payload", "key", "user", "user_is_claimed")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    LSN_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_US_FIELD_NUMBER: _ClassVar[int]
    SOURCE_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TABLE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_MODE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    USER_IS_CLAIMED_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    partition: int
    offset: int
    history: int
    seq: int
    lsn: int
    ordinal: int
    route: int
    committed_us: int
    source_schema: str
    source_table: str
    operation: TopicOperation
    payload_mode: TopicPayload
    payload: bytes
    key: str
    user: str
    user_is_claimed: bool
    def __init__(self, topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., history: _Optional[int] = ..., seq: _Optional[int] = ..., lsn: _Optional[int] = ..., ordinal: _Optional[int] = ..., route: _Optional[int] = ..., committed_us: _Optional[int] = ..., source_schema: _Optional[str] = ..., source_table: _Optional[str] = ..., operation: _Optional[_Union[TopicOperation, str]] = ..., payload_mode: _Optional[_Union[TopicPayload, str]] = ..., payload: _Optional[bytes] = ..., key: _Optional[str] = ..., user: _Optional[str] = ..., user_is_claimed: _Optional[bool] = ...) -> None: ...
