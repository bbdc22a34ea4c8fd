from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Command(_message.Message):
    __slots__ = ("command_id", "gateway_id", "delivery_partition", "sent_us", "subscribe", "unsubscribe", "pause", "resume", "renew", "snapshot_request", "seal")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_PARTITION_FIELD_NUMBER: _ClassVar[int]
    SENT_US_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    command_id: bytes
    gateway_id: str
    delivery_partition: int
    sent_us: int
    subscribe: Subscribe
    unsubscribe: Unsubscribe
    pause: Pause
    resume: Resume
    renew: Renew
    snapshot_request: SnapshotRequest
    seal: bytes
    def __init__(self, command_id: _Optional[bytes] = ..., gateway_id: _Optional[str] = ..., delivery_partition: _Optional[int] = ..., sent_us: _Optional[int] = ..., subscribe: _Optional[_Union[Subscribe, _Mapping]] = ..., unsubscribe: _Optional[_Union[Unsubscribe, _Mapping]] = ..., pause: _Optional[_Union[Pause, _Mapping]] = ..., resume: _Optional[_Union[Resume, _Mapping]] = ..., renew: _Optional[_Union[Renew, _Mapping]] = ..., snapshot_request: _Optional[_Union[SnapshotRequest, _Mapping]] = ..., seal: _Optional[bytes] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("subscription_id", "sql", "parameters", "filter", "owner", "text_settings", "search_path", "barrier_id", "lease_ms", "settings_read", "names")
    class SettingsReadEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SUBSCRIPTION_ID_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TEXT_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SEARCH_PATH_FIELD_NUMBER: _ClassVar[int]
    BARRIER_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_READ_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    subscription_id: bytes
    sql: str
    parameters: _containers.RepeatedCompositeFieldContainer[Parameter]
    filter: str
    owner: Owner
    text_settings: TextSettings
    search_path: _containers.RepeatedScalarFieldContainer[str]
    barrier_id: str
    lease_ms: int
    settings_read: _containers.ScalarMap[str, str]
    names: _containers.RepeatedCompositeFieldContainer[ResolvedName]
    def __init__(self, subscription_id: _Optional[bytes] = ..., sql: _Optional[str] = ..., parameters: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., filter: _Optional[str] = ..., owner: _Optional[_Union[Owner, _Mapping]] = ..., text_settings: _Optional[_Union[TextSettings, _Mapping]] = ..., search_path: _Optional[_Iterable[str]] = ..., barrier_id: _Optional[str] = ..., lease_ms: _Optional[int] = ..., settings_read: _Optional[_Mapping[str, str]] = ..., names: _Optional[_Iterable[_Union[ResolvedName, _Mapping]]] = ...) -> None: ...

class Parameter(_message.Message):
    __slots__ = ("value", "type_oid")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TYPE_OID_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    type_oid: int
    def __init__(self, value: _Optional[bytes] = ..., type_oid: _Optional[int] = ...) -> None: ...

class ResolvedName(_message.Message):
    __slots__ = ("written_schema", "written_name", "oid", "schema", "name")
    WRITTEN_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_NAME_FIELD_NUMBER: _ClassVar[int]
    OID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    written_schema: str
    written_name: str
    oid: int
    schema: str
    name: str
    def __init__(self, written_schema: _Optional[str] = ..., written_name: _Optional[str] = ..., oid: _Optional[int] = ..., schema: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Owner(_message.Message):
    __slots__ = ("role", "connection_id", "login")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    LOGIN_FIELD_NUMBER: _ClassVar[int]
    role: str
    connection_id: str
    login: str
    def __init__(self, role: _Optional[str] = ..., connection_id: _Optional[str] = ..., login: _Optional[str] = ...) -> None: ...

class TextSettings(_message.Message):
    __slots__ = ("time_zone", "date_style", "interval_style", "bytea_output", "extra_float_digits")
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    DATE_STYLE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_STYLE_FIELD_NUMBER: _ClassVar[int]
    BYTEA_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FLOAT_DIGITS_FIELD_NUMBER: _ClassVar[int]
    time_zone: str
    date_style: str
    interval_style: str
    bytea_output: str
    extra_float_digits: int
    def __init__(self, time_zone: _Optional[str] = ..., date_style: _Optional[str] = ..., interval_style: _Optional[str] = ..., bytea_output: _Optional[str] = ..., extra_float_digits: _Optional[int] = ...) -> None: ...

class Unsubscribe(_message.Message):
    __slots__ = ("subscription_id",)
    SUBSCRIPTION_ID_FIELD_NUMBER: _ClassVar[int]
    subscription_id: bytes
    def __init__(self, subscription_id: _Optional[bytes] = ...) -> None: ...

class Pause(_message.Message):
    __slots__ = ("subscription_id",)
    SUBSCRIPTION_ID_FIELD_NUMBER: _ClassVar[int]
    subscription_id: bytes
    def __init__(self, subscription_id: _Optional[bytes] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("subscription_id",)
    SUBSCRIPTION_ID_FIELD_NUMBER: _ClassVar[int]
    subscription_id: bytes
    def __init__(self, subscription_id: _Optional[bytes] = ...) -> None: ...

class Renew(_message.Message):
    __slots__ = ("lease_ms",)
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    lease_ms: int
    def __init__(self, lease_ms: _Optional[int] = ...) -> None: ...

class SnapshotRequest(_message.Message):
    __slots__ = ("query_id", "request_id", "barrier_id")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BARRIER_ID_FIELD_NUMBER: _ClassVar[int]
    query_id: bytes
    request_id: bytes
    barrier_id: str
    def __init__(self, query_id: _Optional[bytes] = ..., request_id: _Optional[bytes] = ..., barrier_id: _Optional[str] = ...) -> None: ...
