from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TopicStateRecord(_message.Message):
    __slots__ = ("position", "topic")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    position: RoutesPosition
    topic: TopicState
    def __init__(self, position: _Optional[_Union[RoutesPosition, _Mapping]] = ..., topic: _Optional[_Union[TopicState, _Mapping]] = ...) -> None: ...

class RoutesPosition(_message.Message):
    __slots__ = ("history", "lsn", "ordinal", "first_seq", "written_us")
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    LSN_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_US_FIELD_NUMBER: _ClassVar[int]
    history: int
    lsn: int
    ordinal: int
    first_seq: int
    written_us: int
    def __init__(self, history: _Optional[int] = ..., lsn: _Optional[int] = ..., ordinal: _Optional[int] = ..., first_seq: _Optional[int] = ..., written_us: _Optional[int] = ...) -> None: ...

class TopicState(_message.Message):
    __slots__ = ("topic_id", "definition", "next_offsets")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    definition: bytes
    next_offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[str] = ..., definition: _Optional[bytes] = ..., next_offsets: _Optional[_Iterable[int]] = ...) -> None: ...
