"""docs/settings.md is what the settings Structs say."""

import pytest

from services.chassis.settings import describe
from services.devstack.settings_reference import DOCUMENT, SERVICES, render


def test_the_settings_reference_is_current():
    assert DOCUMENT.read_text() == render(), "run `make settings`"


@pytest.mark.parametrize("service", SERVICES)
def test_every_variable_that_help_prints_is_in_the_reference(service):
    page = DOCUMENT.read_text()
    variables = [line.split()[0] for line in describe(SERVICES[service]).splitlines()]
    assert [name for name in variables if f"`{name}`" not in page] == []


def test_the_reference_is_the_same_on_every_machine():
    page = DOCUMENT.read_text()
    assert not any(folder in page for folder in ("/root", "/home", "/tmp", "/work"))
