#!/usr/bin/env bash
# Namespaces as `bao` and `kallisto` walk through them: namespace_walk.sh COMMAND
# Against a server whose root token is in the environment. Every "ok" line is a check that held.
set -euo pipefail
cli=$1
top=walk-$$
fail() {
  echo "FAIL $*" >&2
  exit 1
}
ok() { echo "ok $*"; }
is() { # is WHAT EXPECTED FOUND
  [ "$2" = "$3" ] || fail "$1: wanted \"$2\", got \"$3\""
  ok "$1"
}
refused() { # refused WHAT COMMAND...
  local what=$1
  shift
  ! "$@" >/dev/null 2>&1 || fail "$what: it was let through"
  ok "$what"
}
# Some commands print the data of an answer alone: `d` is the data either way, `a` all that came.
json() {
  python3 -c 'import json, sys
a = json.load(sys.stdin)
d = (a.get("data") or a) if isinstance(a, dict) else a
print(eval(sys.argv[1], {"a": a, "d": d}))' "$1"
}

made=$("$cli" namespace create -format=json -custom-metadata=owner=ann "$top")
is "create tells the path" "$top/" "$(json 'd["path"]' <<<"$made")"
is "create tells the metadata" "ann" "$(json 'd["custom_metadata"]["owner"]' <<<"$made")"
id=$(json 'd["id"]' <<<"$made")
is "an id has six characters" 6 "${#id}"
"$cli" namespace create -namespace="$top" kid >/dev/null
is "list" "['kid/']" "$("$cli" namespace list -namespace="$top" -format=json | json 'd if isinstance(d, list) else list(d)')"
"$cli" namespace patch -custom-metadata=owner=bob "$top" >/dev/null
is "lookup after patch" "bob" "$("$cli" namespace lookup -format=json "$top" | json 'd["custom_metadata"]["owner"]')"

"$cli" secrets enable -namespace="$top" -path=kv -version=2 kv >/dev/null
"$cli" kv put -namespace="$top" -mount=kv app password=inside >/dev/null
is "kv get inside" "inside" "$("$cli" kv get -namespace="$top" -mount=kv -field=password app)"
is "the path form is the same" "inside" "$("$cli" read -format=json "$top/kv/data/app" | json 'd["data"]["password"]')"
refused "not in the root namespace" "$cli" kv get -mount=kv app
refused "not in a namespace below" "$cli" kv get -namespace="$top/kid" -mount=kv app

printf 'path "kv/*" { capabilities = ["read", "list"] }' | "$cli" policy write -namespace="$top" app - >/dev/null
token=$("$cli" token create -namespace="$top" -policy=app -field=token)
is "a token ends in the id" ".$id" "${token: -7}"
is "it reads inside" "inside" "$(VAULT_TOKEN=$token BAO_TOKEN=$token "$cli" kv get -namespace="$top" -mount=kv -field=password app)"
is "it is looked up from above" "$top/" "$("$cli" token lookup -format=json "$token" | json 'd["namespace_path"]')"
refused "it is of no use at root" env VAULT_TOKEN="$token" BAO_TOKEN="$token" "$cli" secrets list
refused "nor in the namespace below" env VAULT_TOKEN="$token" BAO_TOKEN="$token" "$cli" secrets list -namespace="$top/kid"

"$cli" auth enable -namespace="$top" userpass >/dev/null
"$cli" write -namespace="$top" auth/userpass/users/ann password=secret token_policies=app >/dev/null
mine=$("$cli" write -namespace="$top" -format=json auth/userpass/login/ann password=secret | json 'a["auth"]["client_token"]')
is "a login inside" "inside" "$(VAULT_TOKEN=$mine BAO_TOKEN=$mine "$cli" kv get -namespace="$top" -mount=kv -field=password app)"
refused "no such user at root" "$cli" write auth/userpass/login/ann password=secret

key=$("$cli" namespace lock -namespace="$top" -format=json | json 'd["unlock_key"]')
refused "a locked namespace" "$cli" kv get -namespace="$top" -mount=kv app
"$cli" namespace unlock -namespace="$top" -unlock-key="$key" >/dev/null
is "and unlocked" "inside" "$("$cli" kv get -namespace="$top" -mount=kv -field=password app)"

refused "one with children is not deleted" "$cli" namespace delete "$top"
"$cli" namespace delete -namespace="$top" kid >/dev/null
for _ in $(seq 600); do # the sweep takes a moment
  "$cli" namespace lookup -namespace="$top" kid >/dev/null 2>&1 || break
  sleep 0.1
done
"$cli" namespace delete "$top" >/dev/null
refused "a deleted one answers nobody" "$cli" kv get -namespace="$top" -mount=kv app
refused "nor does its token" env VAULT_TOKEN="$token" BAO_TOKEN="$token" "$cli" token lookup -namespace="$top"
