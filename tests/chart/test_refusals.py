"""A wrong value is refused before anything is installed, in words that name it."""

import json

import pytest

from tests.chart.rendering import put, refusal

BOTH_WAYS_IN = {
    "ingress": {"enabled": True, "host": "a.example.com"},
    "route": {"enabled": True, "host": "a.example.com", "gateway": "public"},
}
CASES = {
    "a name that does not exist": ({"kafak": {}}, "kafak"),
    "a name that does not exist in a section": (put("kafka.bootstarp", "a:1"), "bootstarp"),
    "a component that does not exist": (put("components.cache", {}), "cache"),
    "a setting that no service knows": (put("components.capture.settings", {"TIDEWIRE_CAPTURE_SLTO": "x"}), "SLTO"),
    "a setting of another service": (put("components.fanout.settings", {"TIDEWIRE_CAPTURE_SLOT": "x"}), "CAPTURE_SLOT"),
    "a setting that has a value of its own": (
        put("components.gateway.settings", {"TIDEWIRE_GATEWAY_PORT": 1}),
        "TIDEWIRE_GATEWAY_PORT",
    ),
    "a setting by a word where a number stands": (
        put("components.registry.settings", {"TIDEWIRE_REGISTRY_OWNER_LIMIT": "many"}),
        "TIDEWIRE_REGISTRY_OWNER_LIMIT",
    ),
    "a password among the settings": (
        put("components.gateway.settings", {"TIDEWIRE_GATEWAY_HTTP_JWT_SECRET": "x" * 32}),
        "TIDEWIRE_GATEWAY_HTTP_JWT_SECRET",
    ),
    "no database": (put("postgres.existingSecret", ""), "postgres/existingSecret"),
    "no Kafka": (put("kafka.bootstrap", ""), "kafka/bootstrap"),
    "a Kafka without a port": (put("kafka.bootstrap", "kafka"), "kafka/bootstrap"),
    "no seal": (put("seal.existingSecret", ""), "seal/existingSecret"),
    "no Redis for a gateway": (put("redis.existingSecret", ""), "redis/existingSecret"),
    "SASL without a Secret": (put("kafka.existingSecret", ""), "kafka/existingSecret"),
    "a protocol that Kafka has not": (put("kafka.securityProtocol", "TLS"), "kafka/securityProtocol"),
    "a mechanism that we have not": (put("kafka.saslMechanism", "GSSAPI"), "kafka/saslMechanism"),
    "no replicas of topics": (put("kafka.replicationFactor", 0), "kafka/replicationFactor"),
    "a Secret whose name Kubernetes refuses": (put("seal.existingSecret", "My_Secret"), "seal/existingSecret"),
    "more fanouts than partitions": (put("components.fanout.replicas", 9), "fanout/replicas"),
    "more workers than partitions": (put("components.recompute.replicas", 9), "recompute/replicas"),
    "more gateways than partitions": (put("components.gateway.replicas", 17), "gateway/replicas"),
    "an autoscaler beyond the partitions": (
        put("components.fanout.autoscaling.maxReplicas", 9),
        "fanout/autoscaling/maxReplicas",
    ),
    "an autoscaler for capture": (put("components.capture.autoscaling", {"kind": "hpa"}), "autoscaling"),
    "an autoscaler for the registry": (put("components.registry.autoscaling", {"kind": "keda"}), "autoscaling"),
    "workers by a lag that says nothing": (
        put("components.recompute.autoscaling.kind", "keda"),
        "recompute/autoscaling/kind",
    ),
    "an autoscaler upside down": (
        put("components.fanout.autoscaling", {"kind": "hpa", "minReplicas": 5, "maxReplicas": 3}),
        "minReplicas 5 is more than maxReplicas 3",
    ),
    "gateways by connections that nobody counts": (
        put("components.gateway.autoscaling.kind", "keda"),
        "gateway/autoscaling/prometheus",
    ),
    "no replicas": (put("components.capture.replicas", 0), "capture/replicas"),
    "a word for a number": (put("components.capture.replicas", "two"), "capture/replicas"),
    "a digest that is none": (put("components.capture.digest", "sha256:12"), "capture/digest"),
    "memory as Java does not read it": (put("components.recompute.driverMemory", "2Gi"), "recompute/driverMemory"),
    "a master that Spark has not": (put("components.recompute.spark.master", "yarn"), "recompute/spark/master"),
    "executors without an image": (
        put("components.recompute.spark.master", "k8s://https://api"),
        "recompute/spark/executorImage",
    ),
    "a size without a unit": (put("components.recompute.storage.size", "10"), "recompute/storage/size"),
    "TLS required without a certificate": (put("components.gateway.tls.required", True), "gateway/tls/existingSecret"),
    "keys over plain HTTP": (put("components.gateway.http.jwksUrl", "http://id/keys"), "gateway/http/jwksUrl"),
    "an origin with a path": (put("components.gateway.http.corsOrigins", ["https://a/b"]), "gateway/http/corsOrigins"),
    "Ingress and HTTPRoute at once": (put("components.gateway", BOTH_WAYS_IN), "components/gateway"),
    "an Ingress without a host": (put("components.gateway.ingress.enabled", True), "gateway/ingress/host"),
    "a route without a gateway": (
        put("components.gateway.route", {"enabled": True, "host": "a.example.com"}),
        "gateway/route/gateway",
    ),
    "a port beyond all ports": (put("components.gateway.service.pgPort", 70000), "gateway/service/pgPort"),
    "a kind of Service that is none": (put("components.gateway.service.type", "Ingress"), "gateway/service/type"),
    "a slot that PostgreSQL refuses": (put("hooks.uninstall.slot", "Tide-Wire"), "hooks/uninstall/slot"),
    "a budget that lets nobody move": (
        put("podDisruptionBudget.maxUnavailable", 0),
        "podDisruptionBudget/maxUnavailable",
    ),
    "a policy that lets nothing out": (put("networkPolicy.egressPorts", []), "networkPolicy/egressPorts"),
    "a toleration with an unknown effect": (
        put("components.fanout.tolerations", [{"effect": "Never"}]),
        "fanout/tolerations",
    ),
    "a pull policy that is none": (put("image.pullPolicy", "Sometimes"), "image/pullPolicy"),
    "an interval without a unit": (put("monitoring.serviceMonitor.interval", "15"), "serviceMonitor/interval"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_value_is_refused_by_its_name(case: str):
    values, named = CASES[case]
    words = refusal(values)
    assert named in words.replace("'", "").replace(".", "/") or named in words, json.dumps(values)
