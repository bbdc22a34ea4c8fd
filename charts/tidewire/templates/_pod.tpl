{{/* What every pod of ours has: no rights, no writable root, no token unless it needs one. Takes root, component. */}}
{{- define "tidewire.pod.common" -}}
# A Service called tidewire-gateway would put TIDEWIRE_GATEWAY_PORT=tcp://… into every pod, and our services refuse it.
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - {name: {{ . }}}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "tidewire.container.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The files that settings name: name of the volume, path, Secret. Takes root, component, facts, values. */}}
{{- define "tidewire.files" -}}
{{- $postgres := .root.Values.postgres -}}
{{- $kafka := .root.Values.kafka -}}
{{- $redis := .root.Values.redis -}}
{{- if and .facts.postgres $postgres.caSecret }}
- {name: postgres-ca, path: /etc/tidewire/postgres, secret: {{ $postgres.caSecret }}}
{{- end }}
{{- if $kafka.caSecret }}
- {name: kafka-ca, path: /etc/tidewire/kafka, secret: {{ $kafka.caSecret }}}
{{- end }}
{{- if $kafka.clientSecret }}
- {name: kafka-client, path: /etc/tidewire/kafka-client, secret: {{ $kafka.clientSecret }}}
{{- end }}
{{- if and .facts.redis $redis.caSecret }}
- {name: redis-ca, path: /etc/tidewire/redis, secret: {{ $redis.caSecret }}}
{{- end }}
{{- if and .facts.redis $redis.clientSecret }}
- {name: redis-client, path: /etc/tidewire/redis-client, secret: {{ $redis.clientSecret }}}
{{- end }}
{{- if eq .component "gateway" }}
{{- if .values.tls.existingSecret }}
- {name: tls, path: /etc/tidewire/tls, secret: {{ .values.tls.existingSecret }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "tidewire.pod" -}}
{{- $onKubernetes := false }}
{{- if eq .component "recompute" }}{{ $onKubernetes = hasPrefix "k8s://" .values.spark.master }}{{ end }}
{{- $files := include "tidewire.files" . | fromYamlArray }}
{{- $pause := default 0 .values.preStopSeconds }}
{{- include "tidewire.pod.common" . }}
serviceAccountName: {{ include "tidewire.fullname" .root }}{{ if $onKubernetes }}-recompute{{ end }}
automountServiceAccountToken: {{ $onKubernetes }}
terminationGracePeriodSeconds: {{ add .facts.grace $pause }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.topologySpread }}
{{- if .enabled }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ .topologyKey }}
    whenUnsatisfiable: {{ .whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "tidewire.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
containers:
  - name: {{ .component }}
    image: {{ include "tidewire.image" . }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: [python, -m, services.{{ .component }}]
    env:
      {{- include "tidewire.environment" . | nindent 6 }}
    ports:
      - {name: health, containerPort: 8080}
      {{- if eq .component "gateway" }}
      - {name: pg, containerPort: 5433}
      - {name: http, containerPort: 8081}
      {{- end }}
    # /healthz fails when the loop stands still, /readyz also when it cannot do its work.
    startupProbe: {httpGet: {path: /healthz, port: health}, periodSeconds: 2, failureThreshold: 90}
    livenessProbe: {httpGet: {path: /healthz, port: health}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 3}
    {{- $waits := and .facts.standby (gt (int .values.replicas) 1) }}
    readinessProbe: {httpGet: {path: {{ ternary "/healthz" "/readyz" $waits }}, port: health}, periodSeconds: 3, timeoutSeconds: 3, failureThreshold: 2}
    {{- if $pause }}
    lifecycle: {preStop: {sleep: {seconds: {{ $pause }}}}}
    {{- end }}
    securityContext:
      {{- include "tidewire.container.security" . | nindent 6 }}
    resources:
      {{- toYaml .values.resources | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      {{- if eq .component "recompute" }}
      - {name: checkpoints, mountPath: /var/lib/tidewire}
      {{- end }}
      {{- if $onKubernetes }}
      - {name: spark, mountPath: /etc/tidewire/spark, readOnly: true}
      {{- end }}
      {{- range $files }}
      - {name: {{ .name }}, mountPath: {{ .path }}, readOnly: true}
      {{- end }}
volumes:
  - {name: tmp, emptyDir: {}}
  {{- if $onKubernetes }}
  - {name: spark, configMap: {name: {{ include "tidewire.fullname" .root }}-spark}}
  {{- end }}
  {{- range $files }}
  - {name: {{ .name }}, secret: {secretName: {{ .secret }}, defaultMode: 288}}
  {{- end }}
{{- end }}
