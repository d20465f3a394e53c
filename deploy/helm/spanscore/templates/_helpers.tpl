{{- define "spanscore.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* 52: a pod's label controller-revision-hash is the StatefulSet's name and eleven characters. */ -}}
{{- define "spanscore.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := printf "%s-%s" .Release.Name $name }}
{{- if contains $name .Release.Name }}{{ $full = .Release.Name }}{{ end }}
{{- default $full .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "spanscore.selectorLabels" -}}
app.kubernetes.io/name: {{ include "spanscore.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "spanscore.labels" -}}
{{ include "spanscore.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | quote }}
{{- end }}

{{- define "spanscore.metadata" -}}
name: {{ include "spanscore.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "spanscore.labels" . | nindent 2 }}
{{- end }}

{{- define "spanscore.serviceAccount" -}}
{{- $default := ternary (include "spanscore.fullname" .) "default" .Values.serviceAccount.create }}
{{- default $default .Values.serviceAccount.name }}
{{- end }}

{{- define "spanscore.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* What the chart itself sets in spanscore.yaml, and no value may. */ -}}
{{- define "spanscore.ownConfig" -}}
{{- $at := .Values.listenAddress }}
receive:
  grpc:
    endpoint: {{ printf "%s:%v" $at .Values.ports.grpc | quote }}
  http:
    endpoint: {{ printf "%s:%v" $at .Values.ports.http | quote }}
  health:
    endpoint: {{ printf "%s:%v" $at .Values.ports.health | quote }}
api:
  endpoint: {{ printf "%s:%v" $at .Values.ports.api | quote }}
  http:
    endpoint: {{ printf "%s:%v" $at .Values.ports.page | quote }}
journal:
  path: /var/lib/spanscore/spanscore-journal.db
{{- end }}

{{- define "spanscore.config" -}}
{{- $default := dict "store" (dict "url" "sqlite:////var/lib/spanscore/spanscore.db") }}
{{- $config := mustMergeOverwrite $default (deepCopy .Values.config) }}
{{- toYaml (mustMergeOverwrite $config (include "spanscore.ownConfig" . | fromYaml)) }}
{{- end }}

{{- define "spanscore.storeUrl" -}}
{{- get (default dict .Values.config.store) "url" | default "sqlite:" }}
{{- end }}

{{- /* Stop where values contradict each other, which the schema cannot see. */ -}}
{{- define "spanscore.refuse" -}}
{{- include "spanscore.refuseOwnKeys" . }}
{{- include "spanscore.refuseReplicas" . }}
{{- include "spanscore.refusePorts" . }}
{{- include "spanscore.refuseGracePeriod" . }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
{{- fail "ingress.hosts is empty: name the hosts under which the page is reached" }}
{{- end }}
{{- end }}

{{- define "spanscore.refuseOwnKeys" -}}
{{- range list "receive.grpc.endpoint" "receive.http.endpoint" "receive.health.endpoint" "api.endpoint" "api.http.endpoint" "journal.path" }}
{{- $at := $.Values.config }}
{{- range splitList "." . }}
{{- $at = ternary (get (default dict $at) .) nil (kindIs "map" (default dict $at)) }}
{{- end }}
{{- if $at }}
{{- fail (printf "config.%s is set by the chart: set ports and listenAddress, the journal is on the replica's volume" .) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "spanscore.refuseReplicas" -}}
{{- $most := .Values.replicas }}
{{- $named := printf "replicas is %v" .Values.replicas }}
{{- if .Values.autoscaling.enabled }}
{{- $most = .Values.autoscaling.maxReplicas }}
{{- $named = printf "autoscaling.maxReplicas is %v" .Values.autoscaling.maxReplicas }}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) }}
{{- fail (printf "autoscaling.minReplicas is %v, which is above autoscaling.maxReplicas, %v" .Values.autoscaling.minReplicas .Values.autoscaling.maxReplicas) }}
{{- end }}
{{- end }}
{{- if and (gt (int $most) 1) (regexMatch "^(\\$\\{[^}]*:-)?sqlite" (include "spanscore.storeUrl" .)) }}
{{- fail (printf "%s, and config.store.url is an SQLite file, which one replica alone can have: set config.store.url to a PostgreSQL that all of them share" $named) }}
{{- end }}
{{- end }}

{{- define "spanscore.refusePorts" -}}
{{- $taken := dict }}
{{- range $name, $port := .Values.ports }}
{{- if hasKey $taken (toString $port) }}
{{- fail (printf "ports.%s is %v, which ports.%s is as well" $name $port (get $taken (toString $port))) }}
{{- end }}
{{- $_ := set $taken (toString $port) $name }}
{{- end }}
{{- end }}

{{- define "spanscore.refuseGracePeriod" -}}
{{- $timeout := toString (default "20s" .Values.config.shutdown_timeout) }}
{{- if regexMatch "^[0-9]+(s|m|h)$" $timeout }}
{{- $seconds := mul (trimAll "smh" $timeout | int) (get (dict "s" 1 "m" 60 "h" 3600) (regexFind "[smh]" $timeout)) }}
{{- if le (int .Values.terminationGracePeriodSeconds) (int $seconds) }}
{{- fail (printf "terminationGracePeriodSeconds is %v, and has to be above config.shutdown_timeout, %s" .Values.terminationGracePeriodSeconds $timeout) }}
{{- end }}
{{- end }}
{{- end }}
