#!/usr/bin/env bash
# Mounts login methods and logs in by them with a Vault-like command line: `bao`, or ours.
#
#   tests/clients/login_walk.sh COMMAND       (VAULT_ADDR, VAULT_TOKEN of root)
set -euo pipefail
cli=$1
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export HOME=$home

ok() { echo "ok $1"; }
# refused WHAT COMMAND...: it must fail.
refused() {
  local what=$1
  shift
  if "$@" >/dev/null 2>&1; then
    echo "FAIL $what: was not refused"
    exit 1
  fi
  ok "$what"
}
# in_text WHAT TEXT COMMAND...: its output must have the text.
in_text() {
  local what=$1 text=$2 out
  shift 2
  out=$("$@" 2>&1) || { echo "FAIL $what: $out"; exit 1; }
  grep -qF -- "$text" <<<"$out" || { echo "FAIL $what: no $text in: $out"; exit 1; }
  ok "$what"
}
anyone() { env -u VAULT_TOKEN -u BAO_TOKEN "$@"; }

in_text "enable userpass" "Success! Enabled userpass auth method at: people/" \
  "$cli" auth enable -path=people -description="staff" userpass
in_text "enable approle" "Success! Enabled approle auth method at: machines/" \
  "$cli" auth enable -path=machines approle
in_text "list" "people/" "$cli" auth list
in_text "list, detailed" "default-service" "$cli" auth list -detailed
in_text "tune" "Success! Tuned the auth method at: people/" \
  "$cli" auth tune -default-lease-ttl=30m -user-lockout-threshold=3 people/
in_text "tuned" "30m" "$cli" read sys/auth/people/tune
in_text "user" "Success!" "$cli" write auth/people/users/ada password=pw token_policies=web
in_text "login" "Success! You are now authenticated" \
  anyone "$cli" login -method=userpass -path=people username=ada password=pw
in_text "the token is kept" "people-ada" anyone "$cli" token lookup
token=$(anyone "$cli" login -token-only -method=userpass -path=people username=ada password=pw)
in_text "the token is printed" "30m" env VAULT_TOKEN="$token" BAO_TOKEN="$token" "$cli" token lookup
refused "wrong password" anyone "$cli" login -method=userpass -path=people username=ada password=no
for _ in 1 2; do
  refused "wrong again" anyone "$cli" login -method=userpass -path=people username=ada password=no
done
refused "locked out" anyone "$cli" login -method=userpass -path=people username=ada password=pw

"$cli" write auth/machines/role/web token_policies=web secret_id_num_uses=1 >/dev/null
role_id=$("$cli" read -field=role_id auth/machines/role/web/role-id)
secret_id=$("$cli" write -f -field=secret_id auth/machines/role/web/secret-id)
in_text "approle" "token_policies" anyone "$cli" write auth/machines/login role_id="$role_id" secret_id="$secret_id"
refused "spent" anyone "$cli" write auth/machines/login role_id="$role_id" secret_id="$secret_id"

in_text "disable" "Success! Disabled the auth method (if it existed) at: people/" "$cli" auth disable people/
in_text "disable approle" "Success!" "$cli" auth disable machines/
refused "its tokens ended" env VAULT_TOKEN="$token" BAO_TOKEN="$token" "$cli" token lookup
