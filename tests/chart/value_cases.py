"""Another value for each value of the chart, and what else must be set for it to matter."""

from typing import Any

from tests.chart.rendering import Values, merged, put

COMPONENTS = ("capture", "registry", "recompute", "fanout", "gateway", "retention")
A_SETTING = {
    "capture": {"TIDEWIRE_CAPTURE_SLOT": "other"},
    "registry": {"TIDEWIRE_REGISTRY_OWNER_LIMIT": 7},
    "recompute": {"TIDEWIRE_RECOMPUTE_VERIFY": 0.5},
    "fanout": {"TIDEWIRE_FANOUT_SESSION_TIMEOUT_MS": 9000},
    "gateway": {"TIDEWIRE_CDC_RETENTION_EVENTS": 1000000},
    "retention": {"TIDEWIRE_RETENTION_INTERVAL_S": 7.5},
}
DIGEST = "sha256:" + "ab" * 32
ON_KUBERNETES = put("components.recompute.spark", {"master": "k8s://https://api", "executorImage": "spark:4"})
RULES = put("monitoring.rules.enabled", True)
INSTALLING = put("hooks.install.enabled", True)


def _of_a_component(name: str) -> dict[str, tuple[Any, Values]]:
    at, needs = f"components.{name}", dict[str, Any]()
    cases: dict[str, tuple[Any, Values]] = {
        f"{at}.enabled": (False, {}),
        f"{at}.replicas": (3, needs),
        f"{at}.digest": (DIGEST, needs),
        f"{at}.resources": ({"requests": {"cpu": "3"}}, needs),
        f"{at}.nodeSelector": ({"disk": "fast"}, needs),
        f"{at}.tolerations": ([{"key": "spot", "operator": "Exists"}], needs),
        f"{at}.priorityClassName": ("urgent", needs),
    }
    return cases | {f"{at}.settings": (A_SETTING[name], needs)}


def _scaling(name: str, kind: str, **values: Any) -> dict[str, tuple[Any, Values]]:
    """Of an autoscaler of this kind."""
    at = f"components.{name}.autoscaling"
    needs = put(at, {"kind": kind, "prometheus": "http://prometheus:9090"} if name == "gateway" else {"kind": kind})
    return {f"{at}.{key}": (value, needs) for key, value in values.items()}


OF_COMPONENTS = {path: case for name in COMPONENTS for path, case in _of_a_component(name).items()}
OF_RECOMPUTE: dict[str, tuple[Any, Values]] = {
    "components.recompute.driverMemory": ("3g", {}),
    "components.recompute.standby": (True, {}),
    "components.recompute.storage.size": ("50Gi", {}),
    "components.recompute.storage.className": ("fast", {}),
    "components.recompute.storage.accessMode": ("ReadWriteMany", {}),
    "components.recompute.spark.master": ("spark://spark:7077", {}),
    "components.recompute.spark.executorImage": ("mine/spark:4", ON_KUBERNETES),
    "components.recompute.spark.executors": (9, ON_KUBERNETES),
    "components.recompute.spark.executorMemory": ("9g", ON_KUBERNETES),
    "components.recompute.autoscaling.kind": ("hpa", {}),
    **_scaling("recompute", "hpa", minReplicas=3, maxReplicas=7, cpuPercent=55),
}
OF_FANOUT: dict[str, tuple[Any, Values]] = {
    "components.fanout.autoscaling.kind": ("keda", {}),
    **_scaling("fanout", "keda", minReplicas=3, maxReplicas=7, lag=55),
    **_scaling("fanout", "hpa", cpuPercent=55),
}
OF_GATEWAY: dict[str, tuple[Any, Values]] = {
    "components.gateway.preStopSeconds": (25, {}),
    "components.gateway.autoscaling.kind": ("hpa", {}),
    **_scaling("gateway", "keda", minReplicas=3, maxReplicas=12, connections=55, prometheus="https://elsewhere"),
    "components.gateway.service.type": ("LoadBalancer", {}),
    "components.gateway.service.pgPort": (6432, {}),
    "components.gateway.service.httpPort": (8443, {}),
    "components.gateway.service.annotations": ({"internal": "true"}, {}),
    "components.gateway.service.externalTrafficPolicy": ("Local", put("components.gateway.service.type", "NodePort")),
    "components.gateway.tls.existingSecret": ("certificate", {}),
    "components.gateway.tls.required": (True, put("components.gateway.tls.existingSecret", "certificate")),
    "components.gateway.http.existingSecret": ("jwt", {}),
    "components.gateway.http.secretKey": ("other", put("components.gateway.http.existingSecret", "jwt")),
    "components.gateway.http.jwksUrl": ("https://id.example.com/keys", {}),
    "components.gateway.http.hosts": (["live.example.com"], {}),
    "components.gateway.http.corsOrigins": (["https://app.example.com"], {}),
}
_INGRESS = put("components.gateway.ingress", {"enabled": True, "host": "a.example.com"})
_ROUTE = put("components.gateway.route", {"enabled": True, "host": "a.example.com", "gateway": "public"})
OF_WAYS_IN: dict[str, tuple[Any, Values]] = {
    "components.gateway.ingress.enabled": (True, put("components.gateway.ingress.host", "a.example.com")),
    "components.gateway.ingress.host": ("b.example.com", _INGRESS),
    "components.gateway.ingress.className": ("nginx", _INGRESS),
    "components.gateway.ingress.tlsSecret": ("tls", _INGRESS),
    "components.gateway.ingress.annotations": ({"a/b": "c"}, _INGRESS),
    "components.gateway.route.enabled": (
        True,
        put("components.gateway.route", {"host": "a.example.com", "gateway": "public"}),
    ),
    "components.gateway.route.host": ("b.example.com", _ROUTE),
    "components.gateway.route.gateway": ("private", _ROUTE),
    "components.gateway.route.gatewayNamespace": ("edge", _ROUTE),
}
OF_SERVERS: dict[str, tuple[Any, Values]] = {
    "postgres.existingSecret": ("other", {}),
    **{f"postgres.keys.{name}": ("other", {}) for name in ("capture", "recompute", "gateway")},
    "postgres.adminKey": ("other", INSTALLING),
    "postgres.runnerKey": ("runner-dsn", {}),
    "postgres.caSecret": ("ca", {}),
    "postgres.trustedOwners": (["app"], {}),
    "postgres.superusersSubscribe": (True, {}),
    "postgres.weakerIsolation": (True, {}),
    "kafka.bootstrap": ("a:1,b:2", {}),
    "kafka.topicPrefix": ("live.", {}),
    "kafka.replicationFactor": (2, {}),
    "kafka.securityProtocol": ("PLAINTEXT", {}),
    "kafka.saslMechanism": ("PLAIN", {}),
    "kafka.existingSecret": ("other", {}),
    "kafka.usernameKey": ("other", {}),
    "kafka.passwordKey": ("other", {}),
    "kafka.keyPasswordKey": ("other", {}),
    "kafka.caSecret": ("other", {}),
    "kafka.clientSecret": ("other", {}),
    "redis.existingSecret": ("other", {}),
    "redis.urlKey": ("other", {}),
    "redis.caSecret": ("other", {}),
    "redis.clientSecret": ("other", {}),
    "seal.existingSecret": ("other", {}),
    "seal.key": ("other", {}),
}
OF_THE_REST: dict[str, tuple[Any, Values]] = {
    "nameOverride": ("tide", {}),
    "fullnameOverride": ("tide", {}),
    "commonLabels": ({"team": "data"}, {}),
    "podAnnotations": ({"a/b": "c"}, {}),
    "image.registry": ("registry.example.com", {}),
    "image.repository": ("mine/tidewire", {}),
    "image.tag": ("1.2.3", {}),
    "image.pullPolicy": ("Always", {}),
    "image.pullSecrets": (["pull"], {}),
    "hooks.topics": (False, {}),
    "hooks.install.enabled": (True, {}),
    **{f"hooks.install.{duty}Role": ("other", INSTALLING) for duty in ("capture", "recompute", "gateway")},
    "hooks.uninstall.enabled": (True, {}),
    "hooks.uninstall.slot": ("other", put("hooks.uninstall.enabled", True)),
    "hooks.test.existingSecret": ("login", {}),
    "hooks.test.key": ("other", put("hooks.test.existingSecret", "login")),
    "podDisruptionBudget.enabled": (False, {}),
    "podDisruptionBudget.maxUnavailable": (2, {}),
    "topologySpread.enabled": (False, {}),
    "topologySpread.topologyKey": ("topology.kubernetes.io/zone", {}),
    "topologySpread.whenUnsatisfiable": ("DoNotSchedule", {}),
    "networkPolicy.enabled": (False, {}),
    "networkPolicy.monitoringNamespaces": ({"name": "monitoring"}, {}),
    "networkPolicy.clientNamespaces": ({"name": "apps"}, {}),
    "networkPolicy.egressPorts": ([5432], {}),
    "serviceAccount.annotations": ({"a/b": "c"}, {}),
    "monitoring.serviceMonitor.enabled": (True, {}),
    "monitoring.serviceMonitor.interval": ("5s", put("monitoring.serviceMonitor.enabled", True)),
    "monitoring.serviceMonitor.labels": ({"release": "p"}, put("monitoring.serviceMonitor.enabled", True)),
    "monitoring.rules.enabled": (True, {}),
    "monitoring.rules.labels": ({"release": "p"}, RULES),
    "monitoring.rules.runbook": ("https://wiki", RULES),
    "monitoring.rules.lagBytes": (12345, RULES),
    "monitoring.dashboards.enabled": (True, {}),
    "monitoring.dashboards.labels": ({"find": "me"}, put("monitoring.dashboards.enabled", True)),
}
CASES = {
    path: (merged(needs, put(path, value)), needs)
    for path, (value, needs) in (
        OF_COMPONENTS | OF_RECOMPUTE | OF_FANOUT | OF_GATEWAY | OF_WAYS_IN | OF_SERVERS | OF_THE_REST
    ).items()
}
