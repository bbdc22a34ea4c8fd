"""The registry of a process's metrics, with those that every process has."""

from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector


def new_registry(service: str) -> CollectorRegistry:
    """A registry which already tells the process's start, memory, CPU and open files, and which build runs."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    build = Gauge(
        "tidewire_build_info", "Which service and version this is; always 1.", ("service", "version"), registry=registry
    )
    build.labels(service, build_version()).set(1)
    return registry


def build_version() -> str:
    """The installed version of the project, or "unknown" in a tree that is not installed."""
    try:
        return version("tidewire")
    except PackageNotFoundError:
        return "unknown"
