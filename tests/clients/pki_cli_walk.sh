#!/usr/bin/env bash
# The pki commands of a Vault-compatible command line against a dev server: pki_cli_walk.sh CLI
# What both command lines print as JSON has to be the same, so one script holds both.
set -uo pipefail
cli=$1
name=pkicli-$(basename "$cli")
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

root=$name-root int=$name-int
for mount in "$root" "$int"; do
  expect "enable $mount" 0 Success "$cli" secrets enable -path="$mount" -max-lease-ttl=87600h pki
done
expect root 0 "BEGIN CERTIFICATE" "$cli" write "$root/root/generate/internal" common_name="Root $name" issuer_name=root key_type=ec ttl=87600h
expect issue 0 "issuer_name                       int1" \
  "$cli" pki issue -issuer_name=int1 "$root/issuer/root" "$int" common_name=int1.example.com key_type=ec ttl=43800h
expect issue-other-key 0 "issuer_name                       int2" \
  "$cli" pki issue -issuer_name=int2 "$root/issuer/root" "$int" common_name=int2.example.com key_type=rsa key_bits=2048 ttl=43800h
expect reissue 0 "issuer_name                       int3" \
  "$cli" pki reissue -issuer_name=int3 "$root/issuer/root" "$int/issuer/int1" "$int" organization=Example
"$cli" read -field=certificate "$int/issuer/int3" >"/tmp/$name.pem"
expect reissued-subject 0 "O = Example, CN = int1.example.com" openssl x509 -in "/tmp/$name.pem" -noout -subject
expect reissued-key 0 "id-ecPublicKey" openssl x509 -in "/tmp/$name.pem" -noout -text
"$cli" read -field=certificate "$root/issuer/root" >"/tmp/$name-root.pem"
expect reissued-verifies 0 "OK" openssl verify -x509_strict -CAfile "/tmp/$name-root.pem" "/tmp/$name.pem"
rm -f "/tmp/$name.pem" "/tmp/$name-root.pem"
expect list-matches 0 "$int/issuer/int1\": true" "$cli" pki list-intermediates -use_names -format=json "$root/issuer/root" "$int"
expect list-table 0 "match?" "$cli" pki list-intermediates "$root/issuer/root" "$int/issuer/int2"
expect list-none 0 "issuer/int2\": false" "$cli" pki list-intermediates -format=json "$int/issuer/int1" "$int/issuer/int2"
expect list-by-subject-only 0 "issuer/int3\": true" "$cli" pki list-intermediates -format=json \
  -direct_sign=false -indirect_sign=false -key_id_match=false "$root/issuer/root" "$int/issuer/int3"
expect signed 0 '"signature_match": true' "$cli" pki verify-sign -format=json "$root/issuer/root" "$int/issuer/int1"
expect trusted 0 '"trust_match": true' "$cli" pki verify-sign -format=json "$root/issuer/root" "$int/issuer/int1"
expect not-signed 0 '"signature_match": false' "$cli" pki verify-sign -format=json "$int/issuer/int1" "$root/issuer/root"
expect no-parent-path 1 "$root" "$cli" pki issue "$root" "$int" common_name=x
expect no-fields 1 "" "$cli" pki issue "$root/issuer/root" "$int"
expect checks 0 "ca_validity_period" "$cli" pki health-check -list "$int"
expect no-mount 1 "" "$cli" pki health-check secret
case $(basename "$cli") in
kallisto)
  # What this command line adds: exit codes by the worst finding, one finding for a list of fields.
  "$cli" write "$int/roles/web" allowed_domains=example.com allow_localhost=true >/dev/null
  expect health 4 "role_allows_localhost" "$cli" pki health-check "$int"
  expect health-json 4 '"status": "critical"' "$cli" pki health-check -format=json "$int"
  expect health-permission 0 "" "$cli" pki health-check -return-indicator=permission "$int"
  token=$("$cli" token create -policy=default -field=token)
  expect health-denied 1 "Code: 403" env VAULT_TOKEN="$token" BAO_TOKEN="$token" "$cli" pki health-check "$int"
  echo '{"too_many_certs":{"enabled":true,"count_warning":0}}' >"/tmp/$name.json"
  expect health-config 3 "too_many_certs" "$cli" pki health-check -default-disabled -health-config="/tmp/$name.json" "$int"
  echo '{"too_many_cert":{}}' >"/tmp/$name.json"
  expect health-unknown-check 1 "there is no check" "$cli" pki health-check -health-config="/tmp/$name.json" "$int"
  rm -f "/tmp/$name.json"
  ;;
bao)
  # It reads both lists of each issuer, and ends at one that is no list. Whether all is well by its measures is not what is asked.
  "$cli" pki health-check -format=json "$int" >"/tmp/$name.txt" 2>&1
  expect both-lists 0 "/crl/delta" cat "/tmp/$name.txt"
  expect every-check 0 "allow_acme_headers" cat "/tmp/$name.txt"
  rm -f "/tmp/$name.txt"
  ;;
esac
exit "$((failures > 0))"
