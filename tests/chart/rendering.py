"""The chart as `helm template` renders it, and what checks the objects: both built once by Go and kept."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.fixtures.installed import PROJECT, installed, run

CHART = PROJECT / "charts" / "tidewire"
LEAST = CHART / "ci" / "least.yaml"
SIZES = ("evaluation", "small", "large", "managed")
HELM = "helm.sh/helm/v3/cmd/helm@v3.19.0"
# A helm that Go builds takes itself to speak to Kubernetes 1.20 unless it is told.
KUBERNETES = "1.31.0"
SCHEMAS = Path(__file__).parent / "schemas"
CHECKER = Path(__file__).parent / "checker"

Values = dict[str, Any]
Objects = dict[str, dict[str, Any]]


@cache
def helm() -> Path:
    def build(folder: Path) -> None:
        run("go", "install", HELM, cwd=folder, environ={**os.environ, "GOBIN": str(folder)})

    return installed("helm", (HELM,), build) / "helm"


@cache
def checker() -> Path:
    def build(folder: Path) -> None:
        environ = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
        run("go", "build", "-o", folder / "checker", ".", cwd=CHECKER, environ=environ)

    inputs = (CHECKER / "main.go", CHECKER / "go.mod", CHECKER / "go.sum")
    return installed("chart-checker", inputs, build) / "checker"


def template(values: Values | None = None, *files: Path) -> subprocess.CompletedProcess[str]:
    """What `helm template` answers; the least values where no file is named."""
    words = [helm(), "template", "t", CHART, "--namespace", "live", "--kube-version", KUBERNETES]
    for file in files or (LEAST,):
        words += ["--values", file]
    given = json.dumps(values or {})
    return subprocess.run([*words, "--values", "-"], input=given, capture_output=True, text=True)


def render(values: Values | None = None, *files: Path) -> Objects:
    """The rendered objects, by kind and name without the release's: "Deployment gateway"."""
    done = template(values, *files)
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
    named = {f"{each['kind']} {short(each['metadata']['name'])}": each for each in objects}
    assert len(named) == len(objects), "two objects of one kind have the same name"
    return named


def refusal(values: Values) -> str:
    """What helm says to values that it refuses."""
    done = template(values)
    assert done.returncode != 0, f"helm took {values}"
    return done.stderr


def short(name: str) -> str:
    return name.removeprefix("t-tidewire").removeprefix("-") or "tidewire"


def check(objects: Objects, expressions: dict[str, str] | None = None) -> dict[str, Any]:
    """What is wrong with objects and PromQL expressions, and which series the latter read."""
    documents = [{"name": name, "schema": _schema(each), "object": each} for name, each in objects.items()]
    request = json.dumps({"documents": documents, "expressions": expressions or {}})
    done = subprocess.run([checker()], input=request, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@cache
def _kinds() -> dict[str, str]:
    found = {}
    for file in sorted(SCHEMAS.glob("*.json")):
        for kind, definition in json.loads(file.read_text())["kinds"].items():
            found[kind] = f"{file}#/$defs/{definition}"
    return found


def _schema(each: dict[str, Any]) -> str:
    return _kinds()[f"{each['apiVersion']}/{each['kind']}"]


def merged(*layers: Values) -> Values:
    """Values laid over values, as helm does it."""
    result: Values = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else value
    return result


def put(path: str, value: Any) -> Values:
    """Values with one value at a dotted path."""
    for key in reversed(path.split(".")):
        value = {key: value}
    found: Values = value
    return found


def pod(workload: dict[str, Any]) -> dict[str, Any]:
    """The spec of the pods of a Deployment, StatefulSet, Job or Pod."""
    spec: dict[str, Any] = workload["spec"]
    return spec["template"]["spec"] if "template" in spec else spec


def container(workload: dict[str, Any]) -> dict[str, Any]:
    [only] = pod(workload)["containers"]
    found: dict[str, Any] = only
    return found


def pods(objects: Objects) -> dict[str, dict[str, Any]]:
    """Everything that runs."""
    return {name: each for name, each in objects.items() if each["kind"] in ("Deployment", "StatefulSet", "Job", "Pod")}
