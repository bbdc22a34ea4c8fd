{{/*
The environment of a component, as its settings Struct reads it: a name that the service does not know would end it.
Takes root, component, facts (of tidewire.components) and values.
*/}}
{{- define "tidewire.environment" -}}
- {name: TIDEWIRE_HTTP_HOST, value: "0.0.0.0"}
- {name: TIDEWIRE_HTTP_PORT, value: "8080"}
{{ include "tidewire.environment.kafka" .root }}
{{- if .facts.postgres }}
{{ include "tidewire.environment.postgres" . }}
{{- end }}
{{- if .facts.seal }}
- name: TIDEWIRE_SEAL_KEY
  valueFrom: {secretKeyRef: {name: {{ .root.Values.seal.existingSecret }}, key: {{ .root.Values.seal.key }}}}
{{- end }}
{{- with .root.Values.redis }}
{{- if and $.facts.redis .existingSecret }}
- name: TIDEWIRE_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .urlKey }}}}
{{- if .caSecret }}
- {name: TIDEWIRE_REDIS_SSL_CA_LOCATION, value: /etc/tidewire/redis/ca.crt}
{{- end }}
{{- if .clientSecret }}
- {name: TIDEWIRE_REDIS_SSL_CERTIFICATE_LOCATION, value: /etc/tidewire/redis-client/tls.crt}
- {name: TIDEWIRE_REDIS_SSL_KEY_LOCATION, value: /etc/tidewire/redis-client/tls.key}
{{- end }}
{{- end }}
{{- end }}
{{- if eq .component "recompute" }}
{{ include "tidewire.environment.recompute" .values }}
{{- else if eq .component "gateway" }}
{{ include "tidewire.environment.gateway" . }}
{{- end }}
{{- range $name, $value := .values.settings }}
- {name: {{ $name }}, value: {{ include "tidewire.text" $value | quote }}}
{{- end }}
{{- end }}

{{/* A value as the environment has it: lists by commas, whole numbers without an exponent. */}}
{{- define "tidewire.text" -}}
{{- if kindIs "slice" . }}{{ join "," . }}
{{- else if and (kindIs "float64" .) (eq (float64 (int64 .)) .) }}{{ int64 . }}
{{- else }}{{ . }}{{ end }}
{{- end }}

{{- define "tidewire.environment.kafka" -}}
{{- with .Values.kafka -}}
- {name: TIDEWIRE_KAFKA_BOOTSTRAP, value: {{ .bootstrap | quote }}}
- {name: TIDEWIRE_KAFKA_TOPIC_PREFIX, value: {{ .topicPrefix | quote }}}
- {name: TIDEWIRE_KAFKA_REPLICATION_FACTOR, value: {{ .replicationFactor | quote }}}
- {name: TIDEWIRE_KAFKA_SECURITY_PROTOCOL, value: {{ .securityProtocol }}}
{{- if hasPrefix "SASL" .securityProtocol }}
- {name: TIDEWIRE_KAFKA_SASL_MECHANISM, value: {{ .saslMechanism }}}
- name: TIDEWIRE_KAFKA_SASL_USERNAME
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .usernameKey }}}}
- name: TIDEWIRE_KAFKA_SASL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .passwordKey }}}}
{{- end }}
{{- if .caSecret }}
- {name: TIDEWIRE_KAFKA_SSL_CA_LOCATION, value: /etc/tidewire/kafka/ca.crt}
{{- end }}
{{- if .clientSecret }}
- {name: TIDEWIRE_KAFKA_SSL_CERTIFICATE_LOCATION, value: /etc/tidewire/kafka-client/tls.crt}
- {name: TIDEWIRE_KAFKA_SSL_KEY_LOCATION, value: /etc/tidewire/kafka-client/tls.key}
{{- end }}
{{- if .keyPasswordKey }}
- name: TIDEWIRE_KAFKA_SSL_KEY_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .keyPasswordKey }}}}
{{- end }}
{{- end }}
{{- end }}

{{- define "tidewire.environment.postgres" -}}
{{- $postgres := .root.Values.postgres -}}
- name: TIDEWIRE_POSTGRES_DSN
  valueFrom: {secretKeyRef: {name: {{ $postgres.existingSecret }}, key: {{ index $postgres.keys .component }}}}
- {name: TIDEWIRE_POSTGRES_SUPERUSERS_SUBSCRIBE, value: {{ $postgres.superusersSubscribe | quote }}}
- {name: TIDEWIRE_POSTGRES_WEAKER_ISOLATION, value: {{ $postgres.weakerIsolation | quote }}}
{{- with $postgres.trustedOwners }}
- {name: TIDEWIRE_POSTGRES_TRUSTED_OWNERS, value: {{ join "," . | quote }}}
{{- end }}
{{- if $postgres.runnerKey }}
- name: TIDEWIRE_POSTGRES_RUNNER_DSN
  valueFrom: {secretKeyRef: {name: {{ $postgres.existingSecret }}, key: {{ $postgres.runnerKey }}}}
{{- end }}
{{- end }}

{{- define "tidewire.environment.recompute" -}}
- {name: TIDEWIRE_RECOMPUTE_FOLDER, value: /var/lib/tidewire}
- {name: TIDEWIRE_RECOMPUTE_MASTER, value: {{ .spark.master | quote }}}
- {name: TIDEWIRE_RECOMPUTE_DRIVER_MEMORY, value: {{ .driverMemory }}}
- {name: TIDEWIRE_RECOMPUTE_STANDBY, value: {{ .standby | quote }}}
# Kept over restarts, so that the group gives a pod its partitions back at once.
- name: TIDEWIRE_RECOMPUTE_WORKER_ID
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- if hasPrefix "k8s://" .spark.master }}
- {name: SPARK_CONF_DIR, value: /etc/tidewire/spark}
- name: SPARK_LOCAL_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: SPARK_LOCAL_HOSTNAME
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- end }}
{{- end }}

{{- define "tidewire.environment.gateway" -}}
{{- $service := printf "%s-gateway" (include "tidewire.fullname" .root) -}}
{{- $namespace := .root.Release.Namespace -}}
{{- with .values -}}
- {name: TIDEWIRE_GATEWAY_HOST, value: "0.0.0.0"}
- {name: TIDEWIRE_GATEWAY_PORT, value: "5433"}
- {name: TIDEWIRE_GATEWAY_HTTP_HOST, value: "0.0.0.0"}
- {name: TIDEWIRE_GATEWAY_HTTP_PORT, value: "8081"}
{{- if .tls.existingSecret }}
- {name: TIDEWIRE_GATEWAY_TLS_CERTIFICATE, value: /etc/tidewire/tls/tls.crt}
- {name: TIDEWIRE_GATEWAY_TLS_KEY, value: /etc/tidewire/tls/tls.key}
- {name: TIDEWIRE_GATEWAY_TLS_REQUIRED, value: {{ .tls.required | quote }}}
{{- end }}
{{- if .http.existingSecret }}
- name: TIDEWIRE_GATEWAY_HTTP_JWT_SECRET
  valueFrom: {secretKeyRef: {name: {{ .http.existingSecret }}, key: {{ .http.secretKey }}}}
{{- end }}
{{- if .http.jwksUrl }}
- {name: TIDEWIRE_GATEWAY_HTTP_JWKS_URL, value: {{ .http.jwksUrl | quote }}}
{{- end }}
# The names of the Service too: a request for any other host is refused.
{{- $inside := list $service (printf "%s.%s" $service $namespace) (printf "%s.%s.svc" $service $namespace) (printf "%s.%s.svc.cluster.local" $service $namespace) }}
- {name: TIDEWIRE_GATEWAY_HTTP_HOSTS, value: {{ concat $inside .http.hosts (compact (list .ingress.host .route.host)) | uniq | join "," | quote }}}
{{- with .http.corsOrigins }}
- {name: TIDEWIRE_GATEWAY_HTTP_CORS_ORIGINS, value: {{ join "," . | quote }}}
{{- end }}
{{- end }}
{{- end }}
