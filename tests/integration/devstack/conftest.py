"""One embedded stack for the files of this folder; test_devstack.py breaks it and ends it."""

import pytest

from tests.fixtures.devstack import raised


@pytest.fixture(scope="package")
def devstack(tmp_path_factory):
    with raised(tmp_path_factory.mktemp("devstack"), TIDEWIRE_DEVSTACK_RESTART_UNREADY_AFTER_S="15") as stack:
        yield stack
