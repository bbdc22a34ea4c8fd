"""The whole stack with its HTTP port, started once for all that is tested of the NOTIFY door here."""

import pytest

from services.devstack.ports import free_port
from tests.e2e.notify.door import Door
from tests.fixtures.full_stack import running_stack
from tests.fixtures.http_port import SECRET


@pytest.fixture(scope="package")
def door(postgres_server, kafka, tmp_path_factory):
    port = free_port()
    settings = {
        "TIDEWIRE_GATEWAY_HTTP_PORT": str(port),
        "TIDEWIRE_GATEWAY_HTTP_JWT_SECRET": SECRET,
        "TIDEWIRE_GATEWAY_HTTP_CONNECTIONS_PER_ADDRESS": "2000",
    }
    with running_stack(postgres_server, kafka, tmp_path_factory.mktemp("notify"), **settings) as stack:
        made = Door(stack, port)
        yield made
        made.close()
