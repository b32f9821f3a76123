#!/usr/bin/env bash
# sops, which keeps secrets in files whose values are encrypted, with its keys in our transit engine.
#
#   tests/clients/sops_walk.sh SOPS       (VAULT_ADDR, VAULT_TOKEN of root)
#
# Encrypts a file of every shape sops has, edits, rotates its data key, reads it by a token that may only
# decrypt, and sees it refused by one that may not and after a value was changed. Prints one line a check.
set -euo pipefail
sops=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export HOME=$work

ok() { echo "ok $1"; }
fail() { echo "FAIL $1"; exit 1; }
# refused WHAT COMMAND...: it must fail.
refused() {
  local what=$1
  shift
  if "$@" >/dev/null 2>&1; then fail "$what: was not refused"; fi
  ok "$what"
}
post() { curl -fsS -o "$work/answer" -H "X-Vault-Token: $VAULT_TOKEN" -d "$2" "$VAULT_ADDR/v1/$1"; }
# token RIGHT: a token that may do nothing but this with the key.
token() {
  post "sys/policies/acl/sops-$1" "{\"policy\":\"path \\\"sops/$1/files\\\" { capabilities = [\\\"update\\\"] }\"}"
  post auth/token/create "{\"policies\":[\"sops-$1\"],\"no_default_policy\":true}"
  sed 's/.*"client_token":"\([^"]*\)".*/\1/' "$work/answer"
}
key=$VAULT_ADDR/v1/sops/keys/files
post sys/mounts/sops '{"type":"transit"}'
post sops/keys/files '{}'

printf 'database:\n  password: planted-password\n  port: 5432\n' >plain.yaml
printf '{"password":"planted-password","ports":[1,2]}' >plain.json
printf 'PASSWORD=planted-password\n' >plain.env
head -c 3000 /dev/urandom >plain.bin
for file in plain.yaml plain.json plain.env plain.bin; do
  "$sops" encrypt --hc-vault-transit "$key" "$file" >"sealed.${file#*.}" || fail "encrypt $file"
  ! grep -q planted-password "sealed.${file#*.}" || fail "$file is in the clear"
  "$sops" decrypt "sealed.${file#*.}" >back || fail "decrypt $file"
  case $file in
    *.json) python3 -c 'import json; assert json.load(open("back")) == json.load(open("plain.json"))' ;;
    *.yaml) diff <(tr -d ' ' <plain.yaml) <(tr -d ' ' <back) >/dev/null ;;
    *) cmp -s "$file" back ;;
  esac || fail "$file came back otherwise"
  ok "encrypt and decrypt ${file#*.}"
done
grep -q 'vault:v1:' sealed.yaml
ok "the data key is a ciphertext of ours"

"$sops" set sealed.yaml '["database"]["password"]' '"another-password"'
"$sops" decrypt --extract '["database"]["password"]' sealed.yaml | grep -qx another-password
ok "edit in place"
curl -fsS -o /dev/null -X POST -H "X-Vault-Token: $VAULT_TOKEN" "$VAULT_ADDR/v1/sops/keys/files/rotate"
"$sops" decrypt sealed.json >/dev/null
ok "decrypt after the transit key was rotated"
"$sops" rotate -i sealed.yaml
grep -q 'vault:v2:' sealed.yaml
ok "rotate to the transit key's new version"

reader=$(token decrypt) writer=$(token encrypt)
VAULT_TOKEN=$reader "$sops" decrypt sealed.yaml >/dev/null || fail "a token that may decrypt"
ok "a token that may decrypt decrypts"
refused "and encrypts nothing" env VAULT_TOKEN="$reader" "$sops" encrypt --hc-vault-transit "$key" plain.yaml
refused "one that may encrypt decrypts nothing" env VAULT_TOKEN="$writer" "$sops" decrypt sealed.yaml
sed 's/port: ENC\[AES256_GCM,data:..../port: ENC[AES256_GCM,data:AAAA/' sealed.yaml >touched.yaml
! cmp -s sealed.yaml touched.yaml || fail "nothing was changed"
refused "a value that was changed is refused" "$sops" decrypt touched.yaml
post sops/keys/files/config '{"min_decryption_version":2}'
refused "a version that was retired opens nothing" "$sops" decrypt sealed.json
curl -fsS -o /dev/null -X DELETE -H "X-Vault-Token: $VAULT_TOKEN" "$VAULT_ADDR/v1/sys/mounts/sops"
