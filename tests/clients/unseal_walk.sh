#!/usr/bin/env bash
# A `bao server` whose seal is our transit engine: it unseals by itself at every start, as long as its token
# is good and the key is there.
#
#   tests/clients/unseal_walk.sh BAO       (VAULT_ADDR, VAULT_TOKEN of root: of Kallisto)
#
# Starts that server on free ports and ends it by id. Prints one line a check.
set -euo pipefail
bao=$1
work=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
export HOME=$work
ours=$VAULT_ADDR
ok() { echo "ok $1"; }
fail() { echo "FAIL $1"; tail -5 "$work/server.log"; exit 1; }
free_port() { python3 "$(dirname "${BASH_SOURCE[0]}")/../free_ports.py"; }
post() { curl -fsS -X POST -H "X-Vault-Token: $VAULT_TOKEN" -d "$2" "$ours/v1/$1"; }

post sys/mounts/unseal '{"type":"transit"}'
post unseal/keys/other '{}' >/dev/null
post sys/policies/acl/unseal '{"policy":"path \"unseal/encrypt/other\" { capabilities = [\"update\"] }\npath \"unseal/decrypt/other\" { capabilities = [\"update\"] }"}'
token=$(post auth/token/create '{"policies":["unseal"],"orphan":true,"period":"1h"}' | sed 's/.*"client_token":"\([^"]*\)".*/\1/')

port=$(free_port) cluster_port=$(free_port)
mkdir "$work/data"
cat >"$work/bao.hcl" <<CONFIG
storage "raft" {
  path    = "$work/data"
  node_id = "one"
}
listener "tcp" {
  address     = "127.0.0.1:$port"
  tls_disable = true
}
seal "transit" {
  address    = "$ours"
  token      = "$token"
  key_name   = "other"
  mount_path = "unseal/"
}
api_addr      = "http://127.0.0.1:$port"
cluster_addr  = "https://127.0.0.1:$cluster_port"
disable_mlock = true
CONFIG
theirs=http://127.0.0.1:$port
start() {
  env -u VAULT_TOKEN -u VAULT_ADDR -u BAO_TOKEN -u BAO_ADDR "$bao" server "-config=$work/bao.hcl" >>"$work/server.log" 2>&1 &
  server=$!
}
stop() { kill "$server"; wait "$server" 2>/dev/null || true; server=; }
# status TEXT [TRIES]: until its seal-status has this.
status() {
  for _ in $(seq "${2:-600}"); do
    curl -fs "$theirs/v1/sys/seal-status" 2>/dev/null | grep -q "$1" && return
    sleep 0.1
  done
  return 1
}
start
status '"initialized":false' || fail "start"
root=$(curl -fsS -X PUT -d '{"recovery_shares":1,"recovery_threshold":1}' "$theirs/v1/sys/init" \
  | sed 's/.*"root_token":"\([^"]*\)".*/\1/')
status '"sealed":false' || fail "init"
ok "initialised and unsealed by our transit key"
in_theirs() { curl -fsS -H "X-Vault-Token: $root" "$@"; }
for _ in $(seq 600); do
  in_theirs -o /dev/null -X POST -d '{"type":"kv"}' "$theirs/v1/sys/mounts/kv" 2>/dev/null && break
  sleep 0.1
done
in_theirs -X POST -d '{"a":"planted"}' "$theirs/v1/kv/x" || fail "a write"
ok "it works"
stop
start
status '"sealed":false' || fail "restart"
found=
for _ in $(seq 600); do
  found=$(in_theirs "$theirs/v1/kv/x" 2>/dev/null | grep -o planted) && break
  sleep 0.1
done
[ "$found" = planted ] || fail "its secrets"
ok "restarted, it unseals by itself and has its secrets"
stop
post unseal/keys/other/rotate '{}' >/dev/null
start
status '"sealed":false' || fail "a key that was rotated"
ok "after the key was rotated too"
stop
post auth/token/revoke "{\"token\":\"$token\"}"
start
if status '"sealed":false' 30; then fail "it unsealed with a token that is dead"; fi
ok "with its token revoked it stays sealed"
kill "$server" 2>/dev/null || true
wait "$server" 2>/dev/null || true
server=
curl -fsS -X DELETE -H "X-Vault-Token: $VAULT_TOKEN" "$ours/v1/sys/mounts/unseal"
