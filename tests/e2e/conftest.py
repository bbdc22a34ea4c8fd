"""The services as processes, for every test here."""

from tests.fixtures.walk import walk

__all__ = ["walk"]
