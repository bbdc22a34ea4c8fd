"""What a database may lack for being watched, each with what to do about it."""


class WatchFailure(Exception):
    """Any reason why a database cannot be watched; trying again does not help until somebody acts."""

    exit_code = 2
    retry = False


class UnsupportedVersion(WatchFailure):
    """The server is older or newer than what Tidewire is tested with."""

    def __init__(self, version: str) -> None:
        super().__init__(f"PostgreSQL {version} is not supported: use 15, 16, 17 or 18")
        self.version = version


class WalLevelNotLogical(WatchFailure):
    """The server does not write what logical replication needs."""

    def __init__(self, wal_level: str) -> None:
        super().__init__(
            f"wal_level is {wal_level!r} and must be 'logical': "
            "run ALTER SYSTEM SET wal_level = 'logical' and restart PostgreSQL"
        )
        self.wal_level = wal_level


class MissingPrivilege(WatchFailure):
    """The role may not do something; `remedy` is the statement that an administrator runs."""

    def __init__(self, role: str, lack: str, remedy: str) -> None:
        super().__init__(f"role {role!r} {lack}: have an administrator run {remedy}")
        self.role = role
        self.remedy = remedy


class Uninstalled(WatchFailure):
    """Somebody took Tidewire out of the database while capture ran; installing it again would undo that."""

    exit_code = 3

    def __init__(self) -> None:
        super().__init__("Tidewire was removed from this database: start capture anew to watch it again")


class SlotNotDropped(WatchFailure):
    """The replication slot stays in use although its walsender was told to end."""

    retry = True

    def __init__(self, slot: str) -> None:
        super().__init__(f"replication slot {slot!r} is still in use: stop the capture that reads it, then try again")
        self.slot = slot


class TablesBusy(WatchFailure):
    """Locks could not be had in time, so that something of Tidewire is still in the database."""

    retry = True

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} stayed locked by other transactions: let them end, then try again")
        self.what = what
