"""What the chart renders: valid objects that find each other, without secrets and without rights."""

from typing import Any

import pytest

from proto.topics import DELIVERIES, DELTAS, QUERIES
from tests.chart.rendering import (
    CHART,
    KUBERNETES,
    LEAST,
    SIZES,
    Objects,
    check,
    container,
    helm,
    pod,
    pods,
    put,
    render,
    template,
)
from tests.chart.value_cases import COMPONENTS, ON_KUBERNETES, merged
from tests.fixtures.installed import run

FILES = {name: CHART / f"values-{name}.yaml" for name in SIZES} | {"least": LEAST}
EVERYTHING = merged(
    ON_KUBERNETES,
    put("hooks", {"install": {"enabled": True}, "uninstall": {"enabled": True}, "test": {"existingSecret": "login"}}),
    put("components.fanout.autoscaling.kind", "keda"),
    put("components.gateway", {"route": {"enabled": True, "host": "a.example.com", "gateway": "public"}}),
    put("monitoring", {key: {"enabled": True} for key in ("serviceMonitor", "rules", "dashboards")}),
)


@pytest.fixture(scope="module", params=[*FILES, "everything"])
def objects(request: pytest.FixtureRequest) -> Objects:
    if request.param == "everything":
        return render(EVERYTHING)
    return render({}, FILES[request.param])


def selected_by(objects: Objects, selector: dict[str, str]) -> set[str]:
    labels = {
        name: each["spec"]["template"]["metadata"]["labels"]
        for name, each in pods(objects).items()
        if "template" in each["spec"]
    }
    return {name for name, own in labels.items() if selector.items() <= own.items()}


@pytest.mark.parametrize("name", FILES)
def test_helm_lint_finds_nothing(name: str):
    run(helm(), "lint", "--strict", CHART, "--kube-version", KUBERNETES, "--values", FILES[name], cwd=CHART)


def test_every_object_is_what_kubernetes_takes(objects: Objects):
    assert check(objects)["wrong"] == []


def test_the_check_of_objects_sees_a_field_that_does_not_exist():
    objects = render()
    container(objects["Deployment fanout"])["comand"] = ["x"]
    [wrong] = check(objects)["wrong"]
    assert "Deployment fanout" in wrong and "comand" in wrong


def test_each_workload_selects_its_own_pods_alone(objects: Objects):
    for name, each in objects.items():
        if each["kind"] in ("Deployment", "StatefulSet"):
            assert selected_by(objects, each["spec"]["selector"]["matchLabels"]) == {name}


def test_services_budgets_and_policies_select_the_pods_of_one_component(objects: Objects):
    found = [each for each in objects.values() if each["kind"] in ("Service", "PodDisruptionBudget", "NetworkPolicy")]
    assert found
    for each in found:
        spec = each["spec"]
        selector = spec.get("podSelector", spec.get("selector"))
        selector = selector.get("matchLabels", selector)
        [chosen] = selected_by(objects, selector)
        component = each["metadata"]["labels"]["app.kubernetes.io/component"]
        assert objects[chosen]["metadata"]["labels"]["app.kubernetes.io/component"] == component


def test_the_ports_of_services_and_probes_are_ports_of_the_pods(objects: Objects):
    for each in objects.values():
        if each["kind"] == "Service":
            [chosen] = selected_by(objects, each["spec"]["selector"])
            named = {port["name"] for port in container(objects[chosen])["ports"]}
            assert {port["targetPort"] for port in each["spec"]["ports"]} <= named


def test_nothing_runs_with_rights_or_a_writable_root(objects: Objects):
    for each in pods(objects).values():
        spec, own = pod(each), container(each)["securityContext"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert own == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} <= set(container(each)["resources"])


def test_no_pod_gets_variables_of_services(objects: Objects):
    """Kubernetes would make TIDEWIRE_GATEWAY_PORT=tcp://… of a Service, which every service of ours refuses."""
    assert {pod(each)["enableServiceLinks"] for each in pods(objects).values()} == {False}


def test_no_secret_is_rendered_and_none_stands_in_an_environment(objects: Objects):
    assert not [name for name, each in objects.items() if each["kind"] == "Secret"]
    secret = ("DSN", "PASSWORD", "USERNAME", "SEAL_KEY", "JWT_SECRET", "REDIS_URL")
    for each in pods(objects).values():
        for entry in container(each).get("env", []):
            if entry["name"].endswith(secret):
                assert set(entry["valueFrom"]["secretKeyRef"]) == {"name", "key"}, entry


def test_only_the_driver_of_executors_has_a_token(objects: Objects):
    holding = {name for name, each in pods(objects).items() if pod(each).get("automountServiceAccountToken", True)}
    assert holding == ({"StatefulSet recompute"} if "Role recompute" in objects else set())


def test_volumes_and_mounts_agree(objects: Objects):
    for each in pods(objects).values():
        claimed = [claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", [])]
        volumes = {volume["name"] for volume in pod(each).get("volumes", [])} | set(claimed)
        assert {mount["name"] for mount in container(each)["volumeMounts"]} == volumes


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_is_switched_off_alone(component: str):
    everything, fewer = (
        render({}),
        render(put(f"components.{component}.enabled", False)),
    )
    gone = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]
        for name, each in everything.items()
        if name not in fewer
    }
    assert gone == {component}
    assert all(fewer[name] == everything[name] for name in fewer)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_is_scaled_alone(component: str):
    before, after = render({}), render(put(f"components.{component}.replicas", 3))
    changed = {name: each for name, each in after.items() if before.get(name) != each}
    assert {each["metadata"]["labels"]["app.kubernetes.io/component"] for each in changed.values()} == {component}
    assert [each["spec"]["replicas"] for each in changed.values() if "replicas" in each["spec"]] == [3]


@pytest.mark.parametrize(
    ("component", "kind"), [("fanout", "keda"), ("fanout", "hpa"), ("gateway", "hpa"), ("recompute", "hpa")]
)
def test_an_autoscaler_owns_the_number_of_replicas(component: str, kind: str):
    objects = render(put(f"components.{component}.autoscaling.kind", kind))
    workload = next(
        each
        for each in objects.values()
        if each["kind"] in ("Deployment", "StatefulSet") and each["metadata"]["name"].endswith(component)
    )
    scaler = objects[f"{'ScaledObject' if kind == 'keda' else 'HorizontalPodAutoscaler'} {component}"]
    assert "replicas" not in workload["spec"]
    assert scaler["spec"]["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
    }


def test_lag_that_never_ends_buys_no_pods():
    triggers = render(put("components.fanout.autoscaling.kind", "keda"))["ScaledObject fanout"]["spec"]["triggers"]
    assert triggers[0]["metadata"]["excludePersistentLag"] == "true"
    assert triggers[0]["metadata"]["allowIdleConsumers"] == "false"


@pytest.mark.parametrize(("component", "topic"), [("fanout", DELTAS), ("recompute", QUERIES), ("gateway", DELIVERIES)])
def test_there_are_at_most_as_many_replicas_as_partitions(component: str, topic: Any):
    at = f"components.{component}.replicas"
    assert template(put(at, topic.partitions)).returncode == 0
    assert template(put(at, topic.partitions + 1)).returncode != 0


@pytest.mark.parametrize("component", ["capture", "registry"])
def test_one_that_waits_for_its_turn_counts_as_ready(component: str):
    """Else a rollout would wait for ever: the second is never given the slot while the first is there."""
    paths = {
        count: container(render(put(f"components.{component}.replicas", count))[f"Deployment {component}"])[
            "readinessProbe"
        ]["httpGet"]["path"]
        for count in (1, 2)
    }
    assert paths == {1: "/readyz", 2: "/healthz"}


def test_a_budget_lets_go_of_what_does_not_work_and_of_a_single_pod():
    objects = render(put("components.fanout.replicas", 1))
    assert "PodDisruptionBudget fanout" not in objects
    assert objects["PodDisruptionBudget gateway"]["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_a_gateway_ends_after_the_pause_and_its_own_drain():
    spec = pod(render(put("components.gateway.preStopSeconds", 40))["Deployment gateway"])
    assert spec["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 40}}
    assert spec["terminationGracePeriodSeconds"] >= 40 + 5 + 2


def test_clients_stay_with_one_gateway():
    assert render()["Service gateway"]["spec"]["sessionAffinity"] == "ClientIP"


def test_workers_keep_their_names_and_folders():
    worker = render()["StatefulSet recompute"]
    names = {entry["name"]: entry for entry in container(worker)["env"]}
    assert names["TIDEWIRE_RECOMPUTE_WORKER_ID"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert worker["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] == "checkpoints"
    assert worker["spec"]["serviceName"] == render()["Service recompute-pods"]["metadata"]["name"]


def test_the_hooks_run_around_the_release_in_their_order():
    hooks = {
        name: each["metadata"]["annotations"]
        for name, each in render(EVERYTHING).items()
        if "helm.sh/hook" in each["metadata"].get("annotations", {})
    }
    assert {name: (notes["helm.sh/hook"], notes.get("helm.sh/hook-weight")) for name, notes in hooks.items()} == {
        "Job topics": ("pre-install,pre-upgrade", "-10"),
        "Job install": ("pre-install,pre-upgrade", "-5"),
        "Job uninstall": ("post-delete", "0"),
        "Pod test": ("test", None),
    }


def test_the_user_of_the_image_is_the_user_of_the_pods():
    dockerfile = (CHART.parents[1] / "services" / "Dockerfile").read_text()
    users = {pod(each)["securityContext"]["runAsUser"] for each in pods(render()).values()}
    assert {f"USER {user}:{user}" in dockerfile for user in users} == {True}
