"""Fixtures that every test may ask for; each starts its server at the first asking."""

import os

from hypothesis import settings

# `make test` runs the same cases every time, so that a red run is a change's doing; `make oracle` looks for new ones.
# No deadlines: a shared machine stalls for longer than any of them.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None)
settings.load_profile("searching" if "ORACLE_EXAMPLES" in os.environ else "repeatable")

pytest_plugins = ["tests.fixtures.postgres", "tests.fixtures.kafka", "tests.fixtures.redis", "tests.fixtures.capture"]
pytest_plugins += ["tests.fixtures.npm_package", "tests.fixtures.chromium"]
