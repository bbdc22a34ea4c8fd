"""Alerts and dashboards read only series that exist, in PromQL that parses; each alert has its paragraph."""

import json
import re
from typing import Any

import pytest

from services.devstack import metrics_reference
from services.devstack.settings_reference import SERVICES
from tests.chart.rendering import check, put, render
from tests.fixtures.installed import PROJECT

ENABLED = put("monitoring", {key: {"enabled": True} for key in ("serviceMonitor", "rules", "dashboards")})
EXPORTED = {name for service in SERVICES for name in metrics_reference.series(service)}
# Series that are exported by whom, not by what: a counter with labels has none before its first.
RUNBOOK = (PROJECT / "docs" / "runbook.md").read_text()


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    return render(ENABLED)


def alerts(objects: dict[str, Any]) -> list[dict[str, Any]]:
    [group] = objects["PrometheusRule tidewire"]["spec"]["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def expressions(objects: dict[str, Any]) -> dict[str, str]:
    found = {rule["alert"]: rule["expr"] for rule in alerts(objects)}
    [text] = objects["ConfigMap dashboard-tidewire"]["data"].values()
    for panel in json.loads(text)["panels"]:
        for target in panel.get("targets", []):
            found[f"{panel['title']} {target['refId']}"] = target["expr"].replace("$namespace", "live")
    return found


def test_the_metrics_reference_is_current():
    assert metrics_reference.DOCUMENT.read_text() == metrics_reference.render(), "run `make settings`"


def test_every_service_is_in_the_reference():
    assert set(metrics_reference.DECLARED) == set(SERVICES)


def test_every_expression_parses_and_reads_series_that_exist(objects: dict[str, Any]):
    asked = expressions(objects)
    answer = check({}, asked)
    assert answer["wrong"] == []
    assert set(answer["metrics"]) == set(asked)
    unknown = {name: set(read) - EXPORTED for name, read in answer["metrics"].items() if not set(read) <= EXPORTED}
    assert unknown == {}


def test_an_expression_that_does_not_parse_would_be_seen():
    [wrong] = check({}, {"torn": "sum(rate(x[5m])"})["wrong"]
    assert wrong.startswith("torn:")


def test_each_alert_says_what_to_do(objects: dict[str, Any]):
    sections = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^## (.+)$", RUNBOOK, re.M)
    }
    named = {rule["annotations"]["runbook_url"].partition("#")[2] for rule in alerts(objects)}
    assert named <= sections
    assert all(rule["annotations"]["summary"].endswith(".") for rule in alerts(objects))
    assert {rule["alert"] for rule in alerts(objects)} <= set(re.findall(r"`(Tidewire\w+)`", RUNBOOK))


def test_the_monitor_selects_the_services_that_have_a_health_port(objects: dict[str, Any]):
    wanted = objects["ServiceMonitor tidewire"]["spec"]["selector"]["matchLabels"]
    chosen = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]
        for each in objects.values()
        if each["kind"] == "Service" and wanted.items() <= each["metadata"]["labels"].items()
    }
    assert chosen == set(SERVICES)


@pytest.mark.parametrize("service", SERVICES)
def test_every_metric_has_a_sentence(service: str):
    without = [family.name for family in metrics_reference.families(service) if not family.documentation.endswith(".")]
    assert without == []
