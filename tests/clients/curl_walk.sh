#!/usr/bin/env bash
# curl against a dev server: the README's lines, both versions of HTTP, and refusals.
set -uo pipefail
failures=0
url=$VAULT_ADDR/v1
token="X-Vault-Token: $VAULT_TOKEN"

expect() { # expect WHAT STATUS TEXT CURL-ARGS...
  local what=$1 status=$2 text=$3 answer
  shift 3
  answer=$(curl -s -m 20 -w '\n%{http_code}' "$@")
  if [ "${answer##*$'\n'}" = "$status" ] && grep -qF -- "$text" <<<"$answer"; then
    echo "ok  $what"
  else
    echo "FAIL $what: wanted $status and '$text' in: $answer"
    failures=$((failures + 1))
  fi
}

expect put 200 '"version":1' -H "$token" -d '{"data":{"password":"s3cr3t","n":1.0}}' "$url/secret/data/curl"
expect get 200 '"data":{"n":1.0,"password":"s3cr3t"}' -H "$token" "$url/secret/data/curl"
expect bearer 200 '"password":"s3cr3t"' -H "Authorization: Bearer $VAULT_TOKEN" "$url/secret/data/curl"
expect http2 200 '"password":"s3cr3t"' --http2-prior-knowledge -H "$token" "$url/secret/data/curl"
expect list 200 '"curl"' -X LIST -H "$token" "$url/secret/metadata"
expect no-token 403 'permission denied' "$url/secret/data/curl"
expect chunked 200 '"version":2' -H "$token" -H 'Transfer-Encoding: chunked' -d '{"data":{"a":1}}' "$url/secret/data/curl"
expect expect-100 200 '"version":3' -H "$token" -H 'Expect: 100-continue' -d '{"data":{"a":1}}' "$url/secret/data/curl"
expect follows-redirect 200 '"version":4' -L --post301 -H "$token" -d '{"data":{"a":1}}' "$url//secret/data/curl"
expect health 200 '"performance_standby":false' "$url/sys/health"
expect dot-segments 400 'segment' --path-as-is -H "$token" "$url/secret/data/../x"
expect bad-json 400 'failed to decode JSON input' -H "$token" -d '{"data":' "$url/secret/data/curl"
head -c 34603008 /dev/zero | expect too-large 413 'request body too large' -H "$token" --data-binary @- "$url/secret/data/curl"
exit "$failures"
