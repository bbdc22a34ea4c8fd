"""Fixtures that every test may ask for; each starts its server at the first asking."""

pytest_plugins = ["tests.fixtures.postgres", "tests.fixtures.kafka", "tests.fixtures.redis", "tests.fixtures.capture"]
