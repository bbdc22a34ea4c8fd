"""Tidewire's client: any SELECT as a live result."""

from tidewire.address import BadAddress
from tidewire.attach import attach, attach_sync
from tidewire.changes import Change, Deleted, Initial, Inserted, Renewed, Replaced, Row, Updated
from tidewire.client import Live, connect
from tidewire.errors import (
    ConnectionFailed,
    LogInRefused,
    ProtocolViolated,
    ServerError,
    SubscriptionFailed,
    SubscriptionRefused,
    TidewireError,
)
from tidewire.messages import Partial
from tidewire.retry import Retry
from tidewire.subscription import Subscription
from tidewire.sync import LiveSync, SubscriptionSync, connect_sync

__all__ = [
    "BadAddress",
    "Change",
    "ConnectionFailed",
    "Deleted",
    "Initial",
    "Inserted",
    "Live",
    "LiveSync",
    "LogInRefused",
    "Partial",
    "ProtocolViolated",
    "Renewed",
    "Replaced",
    "Retry",
    "Row",
    "ServerError",
    "Subscription",
    "SubscriptionFailed",
    "SubscriptionRefused",
    "SubscriptionSync",
    "TidewireError",
    "Updated",
    "attach",
    "attach_sync",
    "connect",
    "connect_sync",
]
