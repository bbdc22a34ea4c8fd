"""`tidewire cdc tail`: a table's events from the CDC door, a line each, acked as they are printed."""

import itertools
import json
import sys

from tidewire.cdc import Cdc, CdcError, CdcEvent, ResnapshotRequired


class CdcFailed(Exception):
    """The door refused."""

    exit_code, retry = 1, False


def run(door: Cdc, database: str, table: str, *, sub_id: str | None, most: int | None, as_json: bool) -> int:
    """Until interrupted, or so many events were printed; a subscription made here is closed at the end."""
    wishes = {"include": {"after": True}, "format": "plain_json"}
    try:
        found = door.subscription(sub_id) if sub_id else door.subscribe_table(database, table, **wishes)
        print(f"subscription {found.sub_id} from offset {found.offset}", file=sys.stderr)
        try:
            for event in itertools.islice(found, most):
                print(json.dumps(event.data) if as_json else line(event), flush=True)
                event.ack()
        finally:
            if not sub_id:
                found.close()
    except ResnapshotRequired as told:
        raise CdcFailed(f"the subscription cannot go on from where it stands: {told}") from told
    except CdcError as error:
        raise CdcFailed(str(error)) from error
    return 0


def line(event: CdcEvent) -> str:
    """seq, op, table, key, and the new row."""
    key = "" if event.pk is None else f" {json.dumps(event.pk)}"
    row = "" if event.after is None else f" {json.dumps(event.after)}"
    return f"{event.seq} {event.op} {event.table}{key}{row}"
