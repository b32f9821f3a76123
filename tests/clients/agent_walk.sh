#!/usr/bin/env bash
# Runs `bao agent` and `bao proxy` before the server: logins by AppRole, renewal and a new login of what they hold, templates of secrets
# that change and of certificates, and the cache. VAULT_ADDR and VAULT_TOKEN name the server; prints one line a check.
#
#   agent_walk.sh BAO PYTHON-SCRIPT-THAT-FINDS-FREE-PORTS
set -euo pipefail
bao=$1 free_ports=$2
work=$(mktemp -d)
agent= proxy=
finish() {
  [ -z "$agent" ] || kill "$agent" 2>/dev/null || true
  [ -z "$proxy" ] || kill "$proxy" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
ok() { echo "ok $1"; }
fail() {
  echo "FAIL $1"
  tail -n 20 "$work"/*.log
  exit 1
}
within() { # within SECONDS NAME COMMAND...: waits until the command succeeds
  local tries=$(($1 * 10)) name=$2
  shift 2
  for _ in $(seq "$tries"); do
    "$@" >/dev/null 2>&1 && { ok "$name"; return; }
    sleep 0.1
  done
  fail "$name"
}
says() { [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }
ask() { # ask TOKEN PATH [DATA]
  curl -fsS -H "X-Vault-Token: $1" ${3:+-d "$3"} "$VAULT_ADDR/v1/$2"
}
member() { python3 -c 'import json,sys; print(json.load(sys.stdin)["data"][sys.argv[1]], end="")' "$1"; }

ask "$VAULT_TOKEN" sys/auth/agent-approle '{"type":"approle"}'
ask "$VAULT_TOKEN" sys/mounts/agent-kv '{"type":"kv","options":{"version":"2"}}'
ask "$VAULT_TOKEN" sys/mounts/agent-pki '{"type":"pki"}'
ask "$VAULT_TOKEN" sys/policies/acl/agent \
  '{"policy":"path \"agent-kv/*\" { capabilities = [\"read\"] }\npath \"agent-pki/issue/*\" { capabilities = [\"update\"] }\npath \"auth/token/create\" { capabilities = [\"update\"] }"}'
ask "$VAULT_TOKEN" auth/agent-approle/role/app '{"token_policies":"agent","token_ttl":"3s","token_max_ttl":"9s"}'
ask "$VAULT_TOKEN" auth/agent-approle/role/app/role-id | member role_id >"$work/role-id"
ask "$VAULT_TOKEN" auth/agent-approle/role/app/secret-id '{}' | member secret_id >"$work/secret-id"
ask "$VAULT_TOKEN" agent-pki/root/generate/internal '{"common_name":"Agents","key_type":"ec","ttl":"8760h"}' >/dev/null
ask "$VAULT_TOKEN" agent-pki/roles/app '{"allow_any_name":true,"max_ttl":"1h","key_type":"ec"}' >/dev/null
ask "$VAULT_TOKEN" agent-kv/data/app '{"data":{"user":"before"}}' >/dev/null

config() { # config NAME PORT
  cat <<END
vault { address = "$VAULT_ADDR" }
auto_auth {
  method "approle" {
    mount_path = "auth/agent-approle"
    config = {
      role_id_file_path = "$work/role-id"
      secret_id_file_path = "$work/secret-id"
      remove_secret_id_file_after_reading = false
    }
  }
  sink "file" { config = { path = "$work/$1-token" } }
}
cache {}
api_proxy { use_auto_auth_token = true }
listener "tcp" {
  address = "127.0.0.1:$2"
  tls_disable = true
}
END
}
agent_port=$(python3 "$free_ports") proxy_port=$(python3 "$free_ports")
config agent "$agent_port" >"$work/agent.hcl"
cat >>"$work/agent.hcl" <<END
template_config { static_secret_render_interval = "1s" }
template {
  contents = "{{ with secret \"agent-kv/data/app\" }}{{ .Data.data.user }}{{ end }}"
  destination = "$work/user"
}
template {
  contents = "{{ with pkiCert \"agent-pki/issue/app\" \"common_name=app.example.com\" }}{{ .Cert }}{{ end }}"
  destination = "$work/certificate"
}
END
config proxy "$proxy_port" >"$work/proxy.hcl"
# The token of whoever runs this is not theirs.
env -u VAULT_TOKEN -u BAO_TOKEN "$bao" agent -config="$work/agent.hcl" >"$work/agent.log" 2>&1 &
agent=$!
env -u VAULT_TOKEN -u BAO_TOKEN "$bao" proxy -config="$work/proxy.hcl" >"$work/proxy.log" 2>&1 &
proxy=$!

within 60 "agent: logs in and writes its token" test -s "$work/agent-token"
first=$(cat "$work/agent-token")
within 60 "agent: renders a secret" says "$work/user" before
within 60 "agent: renders a certificate" openssl x509 -in "$work/certificate" -noout -checkhost app.example.com
certificate=$(cat "$work/certificate")
ask "$VAULT_TOKEN" agent-kv/data/app '{"data":{"user":"after"}}' >/dev/null
within 60 "agent: renders a secret again that changed" says "$work/user" after

within 60 "proxy: logs in" test -s "$work/proxy-token"
through() { curl -fsS "http://127.0.0.1:$proxy_port/v1/$1" "${@:2}"; }
reads() { [ "$(through agent-kv/data/app | python3 -c 'import json,sys; print(json.load(sys.stdin)["data"]["data"]["user"])')" = after ]; }
within 60 "proxy: reads with its own token" reads
made() { through auth/token/create -D "$work/head" -d '{"ttl":"1m"}' | python3 -c 'import json,sys; print(json.load(sys.stdin)["auth"]["accessor"])'; }
# The proxy logs in again within nine seconds, which may be between the two: then its cache is another.
for _ in $(seq 20); do
  one=$(made || true) two=$(made || true)
  [ -n "$one" ] && [ "$one" = "$two" ] && break
  sleep 0.3
done
[ -n "$one" ] && [ "$one" = "$two" ] || fail "proxy: answers from its cache"
grep -qi '^x-cache: hit' "$work/head" || fail "proxy: says that it answered from its cache"
ok "proxy: answers from its cache"
ask "$VAULT_TOKEN" auth/token/revoke-accessor "{\"accessor\":\"$one\"}"

# Three seconds of life, nine at the most: it is renewed, ends, and is followed by that of a new login.
anew() { [ "$(cat "$work/agent-token")" != "$first" ]; }
within 60 "agent: logs in again when its token may live no longer" anew
grep -q 'renewed auth token' "$work/agent.log" || fail "agent: renews its token"
ok "agent: renews its token"
[ "$(cat "$work/certificate")" = "$certificate" ] || fail "agent: keeps a certificate that is still good"
ok "agent: keeps a certificate that is still good"
