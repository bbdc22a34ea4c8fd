"""States that readers of this worker's partitions know, of queries that are not live here."""

from collections import OrderedDict
from collections.abc import Callable, Mapping

from services.recompute.core.result import State

REMEMBERED_ENDED = 1000


class KnownStates:
    """A query that becomes live goes on from here, so that its readers get a delta instead of everything."""

    def __init__(self) -> None:
        # Read from `deltas` when the partition was taken over.
        self._taken_over: dict[bytes, State] = {}
        # Of queries that ended: it may only have been an old record that was replayed, and they come again.
        self._ended: OrderedDict[bytes, State] = OrderedDict()

    def take_over(self, states: Mapping[bytes, State]) -> None:
        self._taken_over.update(states)

    def ended(self, query_id: bytes, state: State) -> None:
        self._ended[query_id] = state
        if len(self._ended) > REMEMBERED_ENDED:
            self._ended.popitem(last=False)

    def pop(self, query_id: bytes) -> State | None:
        return self._taken_over.pop(query_id, None) or self._ended.pop(query_id, None)

    def give_up(self, is_given_up: Callable[[bytes], bool]) -> None:
        """The next owner of those queries goes on from what is written."""
        self._ended.clear()
        self._taken_over = {id: state for id, state in self._taken_over.items() if not is_given_up(id)}

    def taken_over(self, is_asked_for: Callable[[bytes], bool]) -> dict[bytes, State]:
        return {id: state for id, state in self._taken_over.items() if is_asked_for(id)}
