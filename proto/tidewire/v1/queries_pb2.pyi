from proto.tidewire.v1 import commands_pb2 as _commands_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Query(_message.Message):
    __slots__ = ("query_id", "template_id", "template_sql", "parameters", "filter", "sql", "names", "role", "text_settings", "search_path", "settings_read", "snapshots", "seal", "login")
    class SettingsReadEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_ID_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_SQL_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SEARCH_PATH_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_READ_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    LOGIN_FIELD_NUMBER: _ClassVar[int]
    query_id: bytes
    template_id: bytes
    template_sql: str
    parameters: _containers.RepeatedCompositeFieldContainer[_commands_pb2.Parameter]
    filter: str
    sql: str
    names: _containers.RepeatedCompositeFieldContainer[_commands_pb2.ResolvedName]
    role: str
    text_settings: _commands_pb2.TextSettings
    search_path: _containers.RepeatedScalarFieldContainer[str]
    settings_read: _containers.ScalarMap[str, str]
    snapshots: _containers.RepeatedCompositeFieldContainer[SnapshotWanted]
    seal: bytes
    login: str
    def __init__(self, query_id: _Optional[bytes] = ..., template_id: _Optional[bytes] = ..., template_sql: _Optional[str] = ..., parameters: _Optional[_Iterable[_Union[_commands_pb2.Parameter, _Mapping]]] = ..., filter: _Optional[str] = ..., sql: _Optional[str] = ..., names: _Optional[_Iterable[_Union[_commands_pb2.ResolvedName, _Mapping]]] = ..., role: _Optional[str] = ..., text_settings: _Optional[_Union[_commands_pb2.TextSettings, _Mapping]] = ..., search_path: _Optional[_Iterable[str]] = ..., settings_read: _Optional[_Mapping[str, str]] = ..., snapshots: _Optional[_Iterable[_Union[SnapshotWanted, _Mapping]]] = ..., seal: _Optional[bytes] = ..., login: _Optional[str] = ...) -> None: ...

class SnapshotWanted(_message.Message):
    __slots__ = ("request_id", "gateway_id", "delivery_partition", "barrier_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_PARTITION_FIELD_NUMBER: _ClassVar[int]
    BARRIER_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    gateway_id: str
    delivery_partition: int
    barrier_id: str
    def __init__(self, request_id: _Optional[bytes] = ..., gateway_id: _Optional[str] = ..., delivery_partition: _Optional[int] = ..., barrier_id: _Optional[str] = ...) -> None: ...
