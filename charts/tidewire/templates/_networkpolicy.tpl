{{- define "tidewire.networkpolicy" -}}
{{- $policy := .root.Values.networkPolicy -}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "tidewire.fullname" .root }}-{{ .component }}
  labels:
    {{- include "tidewire.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "tidewire.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - ports: [{port: health, protocol: TCP}]
      {{- with $policy.monitoringNamespaces }}
      from: [{namespaceSelector: {matchLabels: {{ toJson . }}}}]
      {{- end }}
    {{- if eq .component "gateway" }}
    - ports: [{port: pg, protocol: TCP}, {port: http, protocol: TCP}]
      {{- with $policy.clientNamespaces }}
      from: [{namespaceSelector: {matchLabels: {{ toJson . }}}}]
      {{- end }}
    {{- end }}
    {{- if eq .component "recompute" }}
    {{- if hasPrefix "k8s://" .values.spark.master }}
    # Executors call their driver back.
    - from: [{podSelector: {matchLabels: {spark-role: executor}}}]
    {{- end }}
    {{- end }}
  egress:
    - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
    - ports:
      {{- range $policy.egressPorts }}
        - {port: {{ . }}, protocol: TCP}
      {{- end }}
    {{- if eq .component "recompute" }}
    {{- if hasPrefix "k8s://" .values.spark.master }}
    - to: [{podSelector: {matchLabels: {spark-role: executor}}}]
    {{- end }}
    {{- end }}
{{- end }}
