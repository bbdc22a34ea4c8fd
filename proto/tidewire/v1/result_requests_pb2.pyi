from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ResultRequest(_message.Message):
    __slots__ = ("query_id", "gen", "gateway_id", "number", "seal")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    GEN_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    gen: int
    gateway_id: str
    number: int
    seal: bytes
    def __init__(self, query_id: _Optional[str] = ..., gen: _Optional[int] = ..., gateway_id: _Optional[str] = ..., number: _Optional[int] = ..., seal: _Optional[bytes] = ...) -> None: ...
