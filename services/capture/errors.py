"""What stops capture: each a type with its facts, what to do, and whether trying again may help."""


class SlotInUse(Exception):
    exit_code, retry = 2, False

    def __init__(self, slot: str, process_id: int | None) -> None:
        holder = f"server process {process_id}" if process_id else "another client"
        super().__init__(
            f"replication slot {slot!r} is in use by {holder}: stop the other capture, or set TIDEWIRE_CAPTURE_SLOT"
        )
        self.slot, self.process_id = slot, process_id


class SlotForeign(Exception):
    exit_code, retry = 2, False

    def __init__(self, slot: str, plugin: str | None, database: str | None) -> None:
        super().__init__(
            f"replication slot {slot!r} belongs to something else (plugin {plugin}, database {database}): "
            "set TIDEWIRE_CAPTURE_SLOT to another name"
        )
        self.slot, self.plugin, self.database = slot, plugin, database


class NoFreeSlot(Exception):
    exit_code, retry = 2, False

    def __init__(self, slot: str, detail: str) -> None:
        super().__init__(
            f"replication slot {slot!r} cannot be created ({detail}): raise max_replication_slots or drop one"
        )
        self.slot = slot


class Superseded(Exception):
    """Another capture has fenced this one off; what it wrote since is void."""

    exit_code, retry = 1, True

    def __init__(self, epoch: int, by_epoch: int) -> None:
        super().__init__(f"epoch {epoch} is fenced off by epoch {by_epoch}: another capture took over, start again")
        self.epoch, self.by_epoch = epoch, by_epoch


class SlotTaken(Exception):
    """Another capture got the slot while this one was taking the log over."""

    exit_code, retry = 1, True

    def __init__(self, slot: str) -> None:
        super().__init__(f"replication slot {slot!r} went to another capture during the takeover: start again")
        self.slot = slot


class ReplicationEnded(Exception):
    """The walsender ended the stream: server shutdown, slot taken or invalidated, connection lost."""

    exit_code, retry = 1, True

    def __init__(self, detail: str) -> None:
        super().__init__(f"PostgreSQL ended the replication stream ({detail}): it is opened again")
        self.detail = detail


class UndecodableWal(Exception):
    exit_code, retry = 2, False

    def __init__(self, slot: str, detail: str) -> None:
        super().__init__(
            f"PostgreSQL cannot decode the WAL for slot {slot!r} ({detail}): run `tidewire doctor`, then "
            f"drop the slot with pg_drop_replication_slot('{slot}') to begin a new history"
        )
        self.slot, self.detail = slot, detail
