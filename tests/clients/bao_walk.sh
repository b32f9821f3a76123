#!/usr/bin/env bash
# A Vault-compatible command line against a dev server: bao_walk.sh CLI
set -uo pipefail
cli=$1
folder=cli-$(basename "$cli")
failures=0

expect() { # expect WHAT CODE TEXT COMMAND...: exit code and a text that the output holds
  local what=$1 code=$2 text=$3 output actual
  shift 3
  output=$("$@" 2>&1)
  actual=$?
  if [ "$actual" = "$code" ] && grep -qF -- "$text" <<<"$output"; then
    echo "ok  $what"
  else
    echo "FAIL $what: exit code $actual, wanted $code and '$text' in: $output"
    failures=$((failures + 1))
  fi
}

p=secret/$folder/app
expect status 0 "Sealed          false" "$cli" status
expect put 0 "version            1" "$cli" kv put "$p" password=s3cr3t user=ada
expect get 0 "password    s3cr3t" "$cli" kv get "$p"
expect field 0 "s3cr3t" "$cli" kv get -field=password "$p"
expect json 0 '"user": "ada"' "$cli" kv get -format=json "$p"
expect yaml 0 'user: ada' "$cli" kv get -format=yaml "$p"
expect mount-flag 0 "s3cr3t" "$cli" kv get -mount=secret -field=password "$folder/app"
expect cas 0 "version            2" "$cli" kv put -cas=1 "$p" password=two
expect wrong-cas 2 "check-and-set parameter did not match" "$cli" kv put -cas=1 "$p" password=x
expect patch 0 "version            3" "$cli" kv patch "$p" more=yes
expect patched 0 "two" "$cli" kv get -field=password "$p"
expect patch-by-reading 0 "version            4" "$cli" kv patch -method=rw "$p" even=more
expect patch-removes 0 "version            5" "$cli" kv patch -method=patch -remove-data=even "$p"
expect removed-field 1 "even" "$cli" kv get -field=even "$p"
expect patch-of-nothing 2 "404" "$cli" kv patch "secret/$folder/never" a=b
expect stdin 0 "version            1" "$cli" kv put "secret/$folder/stdin" - <<<'{"deep":{"x":[1,2.5,null]}}'
expect stdin-deep 0 "map[x:[1 2.5 <nil>]]" "$cli" kv get -field=deep "secret/$folder/stdin"
expect list-by-mount 0 "stdin" "$cli" kv list -mount=secret "$folder"
expect list-of-nothing 2 "No value found" "$cli" kv list "secret/$folder/none"
expect kv-scan 0 "stdin" "$cli" kv scan "secret/$folder"
expect kv-scan-of-nothing 2 "No value found" "$cli" kv scan -mount=secret "$folder/none"
expect old-version 0 "s3cr3t" "$cli" kv get -version=1 -field=password "$p"
expect list 0 "app" "$cli" kv list "secret/$folder"
expect delete 0 "Success!" "$cli" kv delete "$p"
expect deleted 0 "deletion_time      20" "$cli" kv get "$p"
expect undelete 0 "Success!" "$cli" kv undelete -versions=5 "$p"
expect destroy 0 "Success!" "$cli" kv destroy -versions=2 "$p"
expect rollback 0 "version            6" "$cli" kv rollback -version=1 "$p"
expect rolled-back 0 "s3cr3t" "$cli" kv get -field=password "$p"
expect metadata-put 0 "Success!" "$cli" kv metadata put -custom-metadata=owner=ada -max-versions=4 "$p"
expect metadata-get 0 "map[owner:ada]" "$cli" kv metadata get "$p"
expect metadata-patch 0 "Success!" "$cli" kv metadata patch -cas-required=true "$p"
expect cas-required 2 "check-and-set parameter required" "$cli" kv put "$p" a=b
expect read 0 "current_version" "$cli" read "secret/metadata/$folder/app"
expect write 0 "version" "$cli" write -format=json "secret/data/$folder/raw" - <<<'{"data":{"k":"v"}}'
expect list-raw 0 "raw" "$cli" list "secret/metadata/$folder"
expect metadata-delete 0 "Success!" "$cli" kv metadata delete "$p"
expect gone 2 "No value found" "$cli" kv get "$p"
expect no-mount 2 "preflight capability check returned 403" "$cli" kv get nomount/a
expect bad-token 2 "permission denied" env VAULT_TOKEN=bad BAO_TOKEN=bad "$cli" kv get "$p"
expect lookup 0 "auth/token/root" "$cli" token lookup
expect login 0 "Success! You are now authenticated" env -u VAULT_TOKEN -u BAO_TOKEN "$cli" login root
expect enable-with-settings 0 "Success!" "$cli" secrets enable -path="$folder-set" -version=2 -local -seal-wrap \
  -listing-visibility=unauth -audit-non-hmac-request-keys=one -audit-non-hmac-request-keys=two \
  -passthrough-request-headers=X-One kv
expect settings-are-kept 0 "[one two]" "$cli" read -field=audit_non_hmac_request_keys "sys/mounts/$folder-set/tune"
expect tune-lists 0 "Success!" "$cli" secrets tune -allowed-response-headers=X-Two -audit-non-hmac-response-keys=three "$folder-set/"
expect tuned-lists 0 "[three]" "$cli" read -field=audit_non_hmac_response_keys "sys/mounts/$folder-set/tune"
expect detailed-list 0 "$folder-set/" "$cli" secrets list -detailed
expect disable-settings 0 "Success!" "$cli" secrets disable "$folder-set"
expect batch-token 0 "n/a" "$cli" token create -type=batch -policy=default -ttl=1h
if [ "$(basename "$cli")" = bao ]; then
  expect enable 0 "Success!" "$cli" secrets enable -path="$folder-kv" -version=1 kv
  expect v1-put 0 "Success!" "$cli" kv put "$folder-kv/a" x=y
  expect v1-get 0 "y" "$cli" kv get -field=x "$folder-kv/a"
  expect v1-list 0 "a" "$cli" list "$folder-kv"
  expect v1-read 0 "y" "$cli" read -field=x "$folder-kv/a"
  expect v1-delete 0 "Success!" "$cli" delete "$folder-kv/a"
  expect v1-gone 2 "No value found" "$cli" read "$folder-kv/a"
  expect mounted-twice 2 "path is already in use at $folder-kv/" "$cli" secrets enable -path="$folder-kv" kv
  expect engines 0 "$folder-kv/" "$cli" secrets list
  expect tune 0 "Success!" "$cli" secrets tune -description=d "$folder-kv"
  expect disable 0 "Success!" "$cli" secrets disable "$folder-kv"
fi
exit "$failures"
