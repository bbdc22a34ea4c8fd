{{- define "tidewire.autoscaler" -}}
{{- $name := printf "%s-%s" (include "tidewire.fullname" .root) .component -}}
{{- $scaling := .values.autoscaling -}}
---
{{- if eq $scaling.kind "keda" }}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ $name }}
  labels:
    {{- include "tidewire.labels" . | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: {{ .facts.kind }}, name: {{ $name }}}
  minReplicaCount: {{ $scaling.minReplicas }}
  maxReplicaCount: {{ $scaling.maxReplicas }}
  pollingInterval: 15
  cooldownPeriod: 300
  triggers:
    {{- if eq .component "gateway" }}
    - type: prometheus
      metadata:
        serverAddress: {{ $scaling.prometheus | quote }}
        query: sum(tidewire_gateway_connections{namespace="{{ .root.Release.Namespace }}"})
        threshold: {{ $scaling.connections | quote }}
    {{- else }}
    - type: kafka
      metadata:
        bootstrapServers: {{ .root.Values.kafka.bootstrap | quote }}
        consumerGroup: {{ .root.Values.kafka.topicPrefix }}fanout
        topic: {{ .root.Values.kafka.topicPrefix }}deltas
        lagThreshold: {{ $scaling.lag | quote }}
        # A record that cannot be handled must not buy more pods.
        excludePersistentLag: "true"
        allowIdleConsumers: "false"
        {{- if hasPrefix "SASL" .root.Values.kafka.securityProtocol }}
        sasl: {{ .root.Values.kafka.saslMechanism | replace "PLAIN" "plaintext" | replace "SCRAM-SHA-256" "scram_sha256" | replace "SCRAM-SHA-512" "scram_sha512" }}
        {{- end }}
        tls: {{ hasSuffix "SSL" .root.Values.kafka.securityProtocol | ternary "enable" "disable" }}
      {{- if or (hasPrefix "SASL" .root.Values.kafka.securityProtocol) .root.Values.kafka.caSecret }}
      authenticationRef: {name: {{ $name }}}
      {{- end }}
    {{- end }}
{{- if and (ne .component "gateway") (or (hasPrefix "SASL" .root.Values.kafka.securityProtocol) .root.Values.kafka.caSecret) }}
---
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata:
  name: {{ $name }}
  labels:
    {{- include "tidewire.labels" . | nindent 4 }}
spec:
  secretTargetRef:
    {{- with .root.Values.kafka }}
    {{- if hasPrefix "SASL" .securityProtocol }}
    - {parameter: username, name: {{ .existingSecret }}, key: {{ .usernameKey }}}
    - {parameter: password, name: {{ .existingSecret }}, key: {{ .passwordKey }}}
    {{- end }}
    {{- if .caSecret }}
    - {parameter: ca, name: {{ .caSecret }}, key: ca.crt}
    {{- end }}
    {{- end }}
{{- end }}
{{- else }}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $name }}
  labels:
    {{- include "tidewire.labels" . | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: {{ .facts.kind }}, name: {{ $name }}}
  minReplicas: {{ $scaling.minReplicas }}
  maxReplicas: {{ $scaling.maxReplicas }}
  # Going down moves clients or partitions: one at a time, and not for a short lull.
  behavior: {scaleDown: {stabilizationWindowSeconds: 300, policies: [{type: Pods, value: 1, periodSeconds: 60}]}}
  metrics:
    {{- if eq .component "gateway" }}
    - type: Pods
      pods: {metric: {name: tidewire_gateway_connections}, target: {type: AverageValue, averageValue: {{ $scaling.connections | quote }}}}
    {{- else }}
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: {{ $scaling.cpuPercent }}}}
    {{- end }}
{{- end }}
{{- end }}
