from proto.tidewire.v1 import deltas_pb2 as _deltas_pb2
from proto.tidewire.v1 import subscriptions_pb2 as _subscriptions_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Delivery(_message.Message):
    __slots__ = ("gateway_id", "delta", "subscription")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    delta: _deltas_pb2.DeltaRecord
    subscription: _subscriptions_pb2.SubscriptionRecord
    def __init__(self, gateway_id: _Optional[str] = ..., delta: _Optional[_Union[_deltas_pb2.DeltaRecord, _Mapping]] = ..., subscription: _Optional[_Union[_subscriptions_pb2.SubscriptionRecord, _Mapping]] = ...) -> None: ...
