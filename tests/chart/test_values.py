"""Every value of the chart has an effect, and what it changes is still valid."""

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART, Objects, Values, check, render
from tests.chart.value_cases import A_SETTING, CASES

# What is a map or a list in values.yaml is one value if its keys are the user's own.
WHOLE = ("resources", "settings", "nodeSelector", "labels", "annotations")
# The service is not in this release: no setting of it is known yet.


def leaves(values: Values, at: str = "") -> Iterator[str]:
    for key, value in values.items():
        path = f"{at}.{key}" if at else key
        if isinstance(value, dict) and value and key not in WHOLE:
            yield from leaves(value, path)
        else:
            yield path


@functools.cache
def rendered(values: str) -> Objects:
    return render(json.loads(values))


def test_every_value_has_a_case():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(leaves(values)) == set(CASES)


@pytest.mark.parametrize("path", CASES)
def test_a_value_has_an_effect_that_kubernetes_takes(path: str):
    values, needs = CASES[path]
    after = render(values)
    assert after != rendered(json.dumps(needs))
    assert check(after)["wrong"] == []


@pytest.mark.parametrize("component", A_SETTING)
def test_a_setting_reaches_its_own_component_alone(component: str):
    [(name, value)] = A_SETTING[component].items()
    objects = rendered(json.dumps({"components": {component: {"settings": A_SETTING[component]}}}))
    having = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: entry["value"]
        for each in objects.values()
        for entry in environment(each)
        if entry["name"] == name
    }
    assert having == {component: str(value)}


def environment(each: dict[str, Any]) -> list[dict[str, Any]]:
    containers = each["spec"].get("template", {}).get("spec", {}).get("containers", []) if "spec" in each else []
    return [entry for only in containers for entry in only.get("env", [])]
