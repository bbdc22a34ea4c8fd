"""The sentence for a first result that did not come in time: what is waited for, and how far it is."""

from proto.positions import Lsn, format_lsn
from services.gateway.errors import Refusal, RefusalCode


def late_result(waited_s: float, *, barrier: Lsn | None, captured: Lsn | None, evaluated: Lsn | None) -> Refusal:
    """A first result stands at or past its barrier in the log.

    `captured` is how far the log of changes has been written, `evaluated` the latest state that a worker has sent to
    this gateway for any query; None: not known.
    """
    message = f"Execution error: no result within {waited_s:.0f} s"
    if barrier is None:
        return Refusal(RefusalCode.TIMED_OUT, message)
    message += f": it needs the changes up to {format_lsn(barrier)}"
    if captured is not None and captured < barrier:
        message += f", the log of changes is at {format_lsn(captured)}, {barrier - captured:,} bytes behind"
    elif captured is not None:
        message += ", which the log of changes has"
        if evaluated is None:
            message += "; no worker has sent a result yet"
        elif evaluated < barrier:
            message += f"; the latest result of a worker is at {format_lsn(evaluated)}"
        else:
            message += "; its first evaluation takes longer than that"
    return Refusal(RefusalCode.TIMED_OUT, f"{message}: subscribe again")
