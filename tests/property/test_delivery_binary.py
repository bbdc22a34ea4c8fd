"""The delivery property once more with the bytes of the binary door: V33, V42–V49, V53."""

from hypothesis import settings

from proto.pgwire.live import Selective
from services.gateway.core.encoders.binary import BinaryEncoder
from services.gateway.core.encoders.partial_rows import PartialRowRule
from tests.property.binary_client import BinaryClient
from tests.property.test_delivery import Delivery

SELECTIVES = (
    None,
    Selective(enabled=False),
    Selective(max_changed_columns_ratio=1.0),
    Selective(min_changed_columns=2, max_changed_columns_ratio=1.0),
    Selective(max_changed_columns_ratio=0.0),
)


class DeliveryByTheBinaryDoor(Delivery):
    """Partial rows and the LSN of each batch are read from the wire."""

    client_type = BinaryClient

    def encoder(self, wants_lsn, option):
        return BinaryEncoder(PartialRowRule().overlaid(SELECTIVES[option]), wants_lsn)


TestDeliveryByTheBinaryDoor = DeliveryByTheBinaryDoor.TestCase
TestDeliveryByTheBinaryDoor.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
