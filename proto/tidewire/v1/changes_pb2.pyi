from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HistoryBegin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HISTORY_BEGIN_UNSPECIFIED: _ClassVar[HistoryBegin]
    HISTORY_BEGIN_FIRST_START: _ClassVar[HistoryBegin]
    HISTORY_BEGIN_SLOT_LOST: _ClassVar[HistoryBegin]
    HISTORY_BEGIN_DATABASE_REPLACED: _ClassVar[HistoryBegin]
    HISTORY_BEGIN_LOG_REPLACED: _ClassVar[HistoryBegin]
    HISTORY_BEGIN_LOG_LOST_TAIL: _ClassVar[HistoryBegin]
HISTORY_BEGIN_UNSPECIFIED: HistoryBegin
HISTORY_BEGIN_FIRST_START: HistoryBegin
HISTORY_BEGIN_SLOT_LOST: HistoryBegin
HISTORY_BEGIN_DATABASE_REPLACED: HistoryBegin
HISTORY_BEGIN_LOG_REPLACED: HistoryBegin
HISTORY_BEGIN_LOG_LOST_TAIL: HistoryBegin

class ChangesRecord(_message.Message):
    __slots__ = ("epoch", "writer", "history", "system_identifier", "timeline", "committed_lsn", "committed_seq", "fence", "segment", "fragment", "heartbeat")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_LSN_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    writer: int
    history: int
    system_identifier: int
    timeline: int
    committed_lsn: int
    committed_seq: int
    fence: Fence
    segment: Segment
    fragment: Fragment
    heartbeat: Heartbeat
    def __init__(self, epoch: _Optional[int] = ..., writer: _Optional[int] = ..., history: _Optional[int] = ..., system_identifier: _Optional[int] = ..., timeline: _Optional[int] = ..., committed_lsn: _Optional[int] = ..., committed_seq: _Optional[int] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., segment: _Optional[_Union[Segment, _Mapping]] = ..., fragment: _Optional[_Union[Fragment, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ...) -> None: ...

class Fence(_message.Message):
    __slots__ = ("began_because", "database", "history_lsn", "history_seq", "begins_history")
    BEGAN_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_LSN_FIELD_NUMBER: _ClassVar[int]
    HISTORY_SEQ_FIELD_NUMBER: _ClassVar[int]
    BEGINS_HISTORY_FIELD_NUMBER: _ClassVar[int]
    began_because: HistoryBegin
    database: str
    history_lsn: int
    history_seq: int
    begins_history: bool
    def __init__(self, began_because: _Optional[_Union[HistoryBegin, str]] = ..., database: _Optional[str] = ..., history_lsn: _Optional[int] = ..., history_seq: _Optional[int] = ..., begins_history: _Optional[bool] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("first_seq", "open_begin", "first_ordinal", "relations", "entries")
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    OPEN_BEGIN_FIELD_NUMBER: _ClassVar[int]
    FIRST_ORDINAL_FIELD_NUMBER: _ClassVar[int]
    RELATIONS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    first_seq: int
    open_begin: bytes
    first_ordinal: int
    relations: _containers.RepeatedScalarFieldContainer[bytes]
    entries: bytes
    def __init__(self, first_seq: _Optional[int] = ..., open_begin: _Optional[bytes] = ..., first_ordinal: _Optional[int] = ..., relations: _Optional[_Iterable[bytes]] = ..., entries: _Optional[bytes] = ...) -> None: ...

class Fragment(_message.Message):
    __slots__ = ("index", "count", "piece")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    index: int
    count: int
    piece: bytes
    def __init__(self, index: _Optional[int] = ..., count: _Optional[int] = ..., piece: _Optional[bytes] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("lsn", "written_us")
    LSN_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_US_FIELD_NUMBER: _ClassVar[int]
    lsn: int
    written_us: int
    def __init__(self, lsn: _Optional[int] = ..., written_us: _Optional[int] = ...) -> None: ...
