from proto.tidewire.v1 import commands_pb2 as _commands_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubscriptionRecord(_message.Message):
    __slots__ = ("subscription_id", "gateway_id", "delivery_partition", "accepted", "refused")
    SUBSCRIPTION_ID_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_PARTITION_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    subscription_id: bytes
    gateway_id: str
    delivery_partition: int
    accepted: Subscription
    refused: Refusal
    def __init__(self, subscription_id: _Optional[bytes] = ..., gateway_id: _Optional[str] = ..., delivery_partition: _Optional[int] = ..., accepted: _Optional[_Union[Subscription, _Mapping]] = ..., refused: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class Subscription(_message.Message):
    __slots__ = ("query_id", "owner", "paused", "lease_until_us", "first_request_id", "lease_ms")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    FIRST_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    query_id: bytes
    owner: _commands_pb2.Owner
    paused: bool
    lease_until_us: int
    first_request_id: bytes
    lease_ms: int
    def __init__(self, query_id: _Optional[bytes] = ..., owner: _Optional[_Union[_commands_pb2.Owner, _Mapping]] = ..., paused: _Optional[bool] = ..., lease_until_us: _Optional[int] = ..., first_request_id: _Optional[bytes] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("sqlstate", "message")
    SQLSTATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    sqlstate: str
    message: str
    def __init__(self, sqlstate: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
