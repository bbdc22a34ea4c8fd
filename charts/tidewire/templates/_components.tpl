{{/*
What is true of each component whatever the values say: how it runs, what it reads, and how many of it can work at once.
`most` is the number of partitions of the topic that its replicas share (proto/topics.py; a test compares).
`standby`: one works and the others wait, so a waiting one counts as ready while its loop turns.
*/}}
{{- define "tidewire.components" -}}
capture: {kind: Deployment, postgres: true, standby: true, redis: false, seal: false, most: 0, grace: 30}
registry: {kind: Deployment, postgres: false, standby: true, redis: false, seal: true, most: 0, grace: 30}
recompute: {kind: StatefulSet, postgres: true, standby: false, redis: false, seal: true, most: 8, grace: 60}
fanout: {kind: Deployment, postgres: false, standby: false, redis: false, seal: false, most: 8, grace: 30}
gateway: {kind: Deployment, postgres: true, standby: false, redis: true, seal: true, most: 16, grace: 30}
retention: {kind: Deployment, postgres: false, standby: false, redis: true, seal: false, most: 0, grace: 30}
{{- end }}

{{- define "tidewire.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "tidewire.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "tidewire.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "tidewire.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The labels by which pods are found; they never change in a release's life. Takes root and component. */}}
{{- define "tidewire.selector" -}}
app.kubernetes.io/name: {{ include "tidewire.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "tidewire.labels" -}}
{{ include "tidewire.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "tidewire.image" -}}
{{- $image := .root.Values.image }}
{{- $name := printf "%s/%s-%s" $image.registry $image.repository .component }}
{{- $own := index .root.Values.components .component }}
{{- if $own.digest }}{{ $name }}@{{ $own.digest }}{{ else }}{{ $name }}:{{ default .root.Chart.AppVersion $image.tag }}{{ end }}
{{- end }}

{{/* Whether a component's number of replicas is somebody else's business. */}}
{{- define "tidewire.autoscaled" -}}
{{- with .values.autoscaling }}{{ if ne .kind "none" }}true{{ end }}{{ end }}
{{- end }}

{{/* How many there are at least. */}}
{{- define "tidewire.least" -}}
{{- if include "tidewire.autoscaled" . }}{{ .values.autoscaling.minReplicas }}{{ else }}{{ .values.replicas }}{{ end }}
{{- end }}
