#!/usr/bin/env bash
# TLS and Redis clients on a path, with openssl, curl and redis-py: tls_walk.sh PYTHON. KALLISTO names the binary; starts
# servers of its own on free ports and ends them by id. Prints one line a check.
set -euo pipefail
python=$1
# Those of the server that other walks ask.
unset BAO_ADDR BAO_TOKEN VAULT_ADDR VAULT_TOKEN
work=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
ok() { echo "ok $1"; }
fail() { echo "FAIL $1"; tail -5 "$work/server.err"; exit 1; }
free_port() { python3 "$(dirname "${BASH_SOURCE[0]}")/../free_ports.py"; }

head -c 32 /dev/urandom >"$work/seal.key"
port=$(free_port) resp_port=$(free_port)
cat >"$work/kallisto.hcl" <<CONFIG
storage "raft" { path = "$work/data" }
seal "static" {
  current_key_id = "one"
  current_key    = "file://$work/seal.key"
}
listener "tcp" {
  address       = "127.0.0.1:$port"
  tls_cert_file = "$work/cert.pem"
  tls_key_file  = "$work/key.pem"
}
listener "resp" {
  path = "$work/resp.sock"
}
listener "resp" {
  address       = "127.0.0.1:$resp_port"
  tls_cert_file = "$work/cert.pem"
  tls_key_file  = "$work/key.pem"
}
CONFIG

certificate() { # certificate ALGORITHM [OPTION]
  openssl req -x509 -newkey "$1" ${2:+-pkeyopt "$2"} -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
}
start() {
  "$KALLISTO" server "-config=$work/kallisto.hcl" >"$work/server.out" 2>"$work/server.err" &
  server=$!
  for _ in $(seq 600); do
    curl -s -o /dev/null --cacert "$work/cert.pem" "https://127.0.0.1:$port/v1/sys/seal-status" && return
    kill -0 "$server" || fail "start"
    sleep 0.05
  done
  fail "it does not answer"
}
# It answers before it has opened its seal, and leads a moment later.
serves() {
  for _ in $(seq 600); do
    curl -fs -o /dev/null --cacert "$work/cert.pem" "https://127.0.0.1:$port/v1/sys/health" && return
    sleep 0.05
  done
  fail "$1"
}
stop() { kill "$server"; wait "$server" || true; server=; }
# A session of openssl: what it says of the connection. An HTTP request makes it wait for the ticket.
session() { # session VERSION OPTION...
  printf 'GET /v1/sys/seal-status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' \
    | timeout 20 openssl s_client -connect "127.0.0.1:$port" -servername localhost -CAfile "$work/cert.pem" \
      -verify_return_error -ign_eof "$@" 2>&1
}

for kind in ecdsa ed25519; do
  case $kind in
    ecdsa) certificate ec ec_paramgen_curve:prime256v1 ;;
    ed25519) certificate ed25519 ;;
  esac
  rm -rf "$work/data"
  start
  curl -fs -X PUT --cacert "$work/cert.pem" -d '{"recovery_shares":1,"recovery_threshold":1}' \
    "https://127.0.0.1:$port/v1/sys/init" >"$work/init.json" || fail "$kind: init"
  token=$(sed -n 's/.*"root_token":"\([^"]*\)".*/\1/p' "$work/init.json")
  serves "$kind: curl"
  ok "$kind: curl"
  # The certificate signs itself and says that it is an authority: whoever lists it means it.
  VAULT_ADDR=https://127.0.0.1:$port VAULT_CACERT=$work/cert.pem VAULT_TOKEN=$token "$KALLISTO" token lookup >/dev/null \
    || fail "$kind: kallisto trusts the certificate that VAULT_CACERT names"
  certificate_of_another=$work/other.pem
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
    -keyout "$work/other.key" -out "$certificate_of_another" 2>/dev/null
  if VAULT_ADDR=https://127.0.0.1:$port VAULT_CACERT=$certificate_of_another "$KALLISTO" status >"$work/refused" 2>&1; then
    fail "$kind: kallisto trusted another certificate of the same name"
  fi
  grep -q 'invalid peer certificate' "$work/refused" || fail "$kind: $(cat "$work/refused")"
  ok "$kind: kallisto trusts a self-signed certificate that is listed, and no other"
  for version in tls1_3 tls1_2; do
    session "-$version" -sess_out "$work/$version.pem" >"$work/first" || fail "$kind $version: $(tail -3 "$work/first")"
    grep -q '^New,' "$work/first" || fail "$kind $version: no new session"
    session "-$version" -sess_in "$work/$version.pem" >"$work/second" || fail "$kind $version: again"
    grep -q '^Reused,' "$work/second" || fail "$kind $version: not resumed"
    ok "$kind $version: a session is resumed"
  done
  session -tls1_1 >"$work/old" 2>&1 && fail "$kind: TLS 1.1 is spoken"
  ok "$kind: nothing older than TLS 1.2"
  # Another process of the same cluster, unsealed by itself: the ticket's secret is the cluster's.
  stop
  start
  serves "$kind: it does not unseal by itself"
  session -tls1_3 -sess_in "$work/tls1_3.pem" >"$work/third" || fail "$kind: after a restart"
  grep -q '^Reused,' "$work/third" || fail "$kind: not resumed after a restart"
  ok "$kind: a session is resumed by another process of the cluster"
  if [ $kind = ecdsa ]; then
    certificate ed25519
    kill -HUP "$server"
    serves reload
    ok "a hangup changes the certificate, also to one of another kind"
    curl -fs --cacert "$work/cert.pem" -H "X-Vault-Token: $token" -d '{"type":"kv","options":{"version":"2"}}' \
      "https://127.0.0.1:$port/v1/sys/mounts/secret" || fail "mount"
    SOCKET=$work/resp.sock PORT=$resp_port CA=$work/cert.pem TOKEN=$token "$python" - <<'PYTHON' || fail "redis-py"
import os, stat
import redis
path = os.environ["SOCKET"]
assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, oct(os.stat(path).st_mode)
client = redis.Redis(unix_socket_path=path, password=os.environ["TOKEN"], decode_responses=True)
assert client.set("by/path", "1") is True and client.get("by/path") == "1"
print("ok redis-py on a path")
client = redis.Redis(host="localhost", port=int(os.environ["PORT"]), ssl=True, ssl_ca_certs=os.environ["CA"],
                     password=os.environ["TOKEN"], decode_responses=True)
assert client.get("by/path") == "1"
print("ok redis-py over TLS")
PYTHON
  fi
  stop
  [ ! -e "$work/resp.sock" ] || fail "the socket's file stays behind"
  ok "$kind: the socket's file is gone with the server"
done
