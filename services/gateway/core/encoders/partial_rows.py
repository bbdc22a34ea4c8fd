"""When the binary door sends an updated row in part: `[subscriptions.selective_updates]`, and each Subscribe's own."""

from enum import Enum
from math import isnan

from msgspec import Struct, structs

from proto.pgwire.live import Selective


class RowDecision(Enum):
    """How an updated row is sent, and if whole, why; the values are the reasons in the metrics."""

    PARTIAL = "within_threshold"
    DISABLED = "disabled"
    TOO_MANY = "threshold_exceeded"
    TOO_FEW = "below_minimum"


class PartialRowRule(Struct, frozen=True, kw_only=True):
    """V51, V52: as the server's settings have it unless a Subscribe says otherwise."""

    enabled: bool = True
    min_changed_columns: int = 1
    max_changed_columns_ratio: float = 0.5

    def overlaid(self, own: Selective | None) -> "PartialRowRule":
        """V17: the fields that a Subscribe names take the place of the server's."""
        if own is None:
            return self
        ratio = own.max_changed_columns_ratio
        return PartialRowRule(
            enabled=self.enabled if own.enabled is None else own.enabled,
            min_changed_columns=(
                self.min_changed_columns if own.min_changed_columns is None else own.min_changed_columns
            ),
            # NaN would be equal to no other rule, and a group of its own for each subscription.
            max_changed_columns_ratio=self.max_changed_columns_ratio if ratio is None or isnan(ratio) else ratio,
        )

    def disabled(self) -> "PartialRowRule":
        """The same for a client that does not know partial rows."""
        return structs.replace(self, enabled=False)

    def decide(self, changed: int, columns: int) -> RowDecision:
        """V46: all columns count below, the key's too; only strictly more than the maximum is too many."""
        if not self.enabled:
            return RowDecision.DISABLED
        if changed < self.min_changed_columns:
            return RowDecision.TOO_FEW
        return RowDecision.TOO_MANY if changed / columns > self.max_changed_columns_ratio else RowDecision.PARTIAL
