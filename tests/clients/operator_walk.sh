#!/usr/bin/env bash
# An operator's day at a dev server, with a Vault-compatible command line: operator_walk.sh CLI KEYFILE
# KEYFILE holds the one share of the unseal key, and the new one afterwards.
set -uo pipefail
cli=$1 keyfile=$2
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

member() { # member NAME: the first text of a member of the JSON on standard input
  tr -d '\n' | sed -n "s/.*\"$1\": *\[\{0,1\} *\"\([^\"]*\)\".*/\1/p"
}

expect initialized 0 "is initialized" "$cli" operator init -status
expect twice 2 "Vault is already initialized" "$cli" operator init
expect key-status 0 "Encryption Count" "$cli" operator key-status
expect rotate 0 "Success! Rotated key" "$cli" operator rotate
expect kept 0 "version" "$cli" kv put secret/operator a=b
expect members 0 "Active Node" "$cli" operator members
expect step-down 0 "Success! Stepped down" "$cli" operator step-down

share=$(<"$keyfile")
expect no-rekey 1 "No rekey is in progress" "$cli" operator rekey "$share"
nonce=$("$cli" operator rekey -init -key-shares=1 -key-threshold=1 -format=json | member nonce)
expect rekey-status 0 "$nonce" "$cli" operator rekey -status
expect other-nonce 2 "incorrect nonce supplied" "$cli" operator rekey -nonce=other "$share"
new=$("$cli" operator rekey -nonce="$nonce" -format=json "$share" | member keys_base64)
expect rekeyed 0 "Started    false" "$cli" operator rekey -status
expect rekey-cancel 0 "Success! Canceled rekeying" "$cli" operator rekey -cancel
echo "$new" >"$keyfile"

expect seal 0 "is sealed." "$cli" operator seal
expect sealed 2 "Sealed             true" "$cli" status
expect sealed-read 2 "sealed" "$cli" kv get secret/operator
expect old-share 2 "Error unsealing" "$cli" operator unseal "$share"
expect unseal 0 "Sealed          false" "$cli" operator unseal "$new"
expect unsealed 0 "b" "$cli" kv get -field=a secret/operator

start=$("$cli" operator generate-root -init -format=json)
nonce=$(member nonce <<<"$start")
encoded=$("$cli" operator generate-root -nonce="$nonce" -format=json "$new" | member encoded_token)
token=$("$cli" operator generate-root -decode="$encoded" -otp="$(member otp <<<"$start")")
expect generated-root 0 "root" env VAULT_TOKEN="$token" BAO_TOKEN="$token" "$cli" token lookup
exit "$failures"
