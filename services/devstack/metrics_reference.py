"""The metrics reference: what each service exports, rendered from the classes that declare it.

`make settings` writes it to docs/metrics.md; tests/chart/test_metrics.py compares.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from proto.pgwire.conversation import Traffic
from services.capture.metrics import Metrics as Capture
from services.chassis.metrics import new_registry
from services.devstack.settings import PROJECT
from services.fanout.metrics import Metrics as Fanout
from services.gateway.metrics import CdcMetrics, HttpMetrics
from services.gateway.metrics import Metrics as Gateway
from services.recompute.metrics import Metrics as Recompute
from services.recompute.metrics import RouteMetrics
from services.registry.metrics import Metrics as Registry
from services.retention.metrics import Metrics as Retention

DOCUMENT = PROJECT / "docs" / "metrics.md"
HEAD = """\
# Metrics

Each service serves `/metrics` beside `/healthz` and `/readyz` (`TIDEWIRE_HTTP_HOST`, `TIDEWIRE_HTTP_PORT`) in the
format of Prometheus. A counter ends with `_total`; a histogram has `_bucket`, `_sum` and `_count`. No label holds an
id. The chart's alerts and dashboards use these names and no others; [runbook.md](runbook.md) says what to do when one
is out of bounds.

This page is rendered from the code by `make settings`; do not edit it.
"""


def _gateway(registry: CollectorRegistry) -> None:
    Gateway(registry, Traffic())
    HttpMetrics(registry)
    CdcMetrics(registry)


def _recompute(registry: CollectorRegistry) -> None:
    Recompute(registry)
    RouteMetrics(registry)


DECLARED: dict[str, Callable[[CollectorRegistry], object]] = {
    "capture": Capture,
    "registry": Registry,
    "recompute": _recompute,
    "fanout": Fanout,
    "gateway": _gateway,
    "retention": Retention,
}


def families(service: str) -> list[Metric]:
    """What a service exports beside what every process does, in the order of its declaration."""
    registry = CollectorRegistry()
    DECLARED[service](registry)
    return list(registry.collect())


def series(service: str) -> set[str]:
    """The names that a scrape of a service may have."""
    registry = new_registry(service)
    DECLARED[service](registry)
    return {name for family in registry.collect() for name in _series(family)}


def render() -> str:
    """The whole page."""
    parts = [HEAD, _section("every service", list(new_registry("any").collect()))]
    parts += [_section(service, families(service)) for service in DECLARED]
    return "\n".join(parts)


def _section(title: str, found: list[Metric]) -> str:
    rows = (f"| `{_shown(family)}` | {family.type} | {family.documentation} |\n" for family in found)
    return f"## {title[0].upper()}{title[1:]}\n\n| metric | kind | |\n|---|---|---|\n{''.join(rows)}"


def _shown(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _series(family: Metric) -> Iterator[str]:
    yield _shown(family)
    if family.type == "histogram":
        yield from (f"{family.name}_{part}" for part in ("bucket", "sum", "count"))


def main() -> None:
    DOCUMENT.write_text(render())


if __name__ == "__main__":
    main()
