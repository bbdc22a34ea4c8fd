"""One stack of all services for the tests of this folder; each file has tables of its own."""

import pytest

from tests.fixtures.full_stack import running_stack


@pytest.fixture(scope="package")
def stack(postgres_server, kafka, tmp_path_factory):
    with running_stack(postgres_server, kafka, tmp_path_factory.mktemp("stack")) as made:
        yield made
