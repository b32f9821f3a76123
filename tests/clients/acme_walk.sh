#!/usr/bin/env bash
# ACME with clients that nobody here wrote: acme_walk.sh PYTHON [BINARY OF INSTANT-ACME]. PYTHON has dnslib; KALLISTO names the binary. Each client issues, renews and revokes.
# certbot, lego and dehydrated are those of the system (Debian has all three); one that is missing is skipped, loudly.
#
# Challenges are served at ports 80 and 443 of an address of 127/8 that nobody else uses, which takes the right to listen there: root has it.
# Starts servers of its own and ends them by id. Prints one line a check.
set -euo pipefail
python=$1
instant=${2:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
address=127.77.$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1))
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT
ok() { echo "ok $1"; }
fail() {
  echo "FAIL $1"
  # With `-n`: the short form takes one file only.
  tail -n 8 "$work"/*.log "$work/server.err" 2>/dev/null || true
  exit 1
}
free_port() { python3 "$(dirname "${BASH_SOURCE[0]}")/../free_ports.py"; }
python3 -c "import socket; s = socket.socket(); s.bind(('$address', 80))" 2>/dev/null || {
  echo "*** SKIPPED: acme: this user may not listen at port 80"
  exit 0
}

port=$(free_port) dns=$(free_port)
mkdir "$work/texts" "$work/tls"
"$python" "$here/acme_dns.py" "$dns" "$address" "$work/texts" >"$work/dns.log" 2>&1 &
pids+=($!)
"$KALLISTO" server -dev -dev-tls -dev-tls-cert-dir="$work/tls" -dev-root-token-id=root -dev-listen-address="127.0.0.1:$port" \
  >"$work/server.out" 2>"$work/server.err" &
pids+=($!)
url=https://127.0.0.1:$port
for _ in $(seq 600); do
  ca=$(ls "$work"/tls/*ca*.pem 2>/dev/null | head -1) || true
  [ -n "$ca" ] && curl -fs -o /dev/null --cacert "$ca" "$url/v1/sys/health" && break
  sleep 0.05
done
export SSL_CERT_FILE=$ca REQUESTS_CA_BUNDLE=$ca CURL_CA_BUNDLE=$ca LEGO_CA_CERTIFICATES=$ca
ask() { curl -s --cacert "$ca" -H 'X-Vault-Token: root' "$@"; }
ask -o /dev/null -d '{"type":"pki","config":{"max_lease_ttl":"8760h"}}' "$url/v1/sys/mounts/pki"
ask -d '{"common_name":"Walk Root","ttl":"8760h","key_type":"ec"}' "$url/v1/pki/root/generate/internal" >"$work/root.json"
python3 -c "import json,sys; print(json.load(open('$work/root.json'))['data']['certificate'])" >"$work/root.pem"
ask -o /dev/null -d "{\"path\":\"$url/v1/pki\"}" "$url/v1/pki/config/cluster"
ask -o /dev/null -d '{"allowed_domains":"example.test","allow_subdomains":true,"key_type":"any","max_ttl":"720h"}' "$url/v1/pki/roles/web"
acme() { ask -d "$1" "$url/v1/pki/config/acme"; }
acme "{\"enabled\":true,\"dns_resolver\":\"127.0.0.1:$dns\",\"challenge_permitted_ip_ranges\":\"$address\"}" | grep -q '"enabled":true' || fail "config/acme"
directory=$url/v1/pki/roles/web/acme/directory

verify() { # verify CHAIN NAME...: the first certificate of the chain is for the names and verifies
  local chain=$1
  shift
  openssl verify -x509_strict -purpose sslserver -CAfile "$work/root.pem" -untrusted "$chain" "$chain" >"$work/verify.log" 2>&1 || fail "$chain does not verify"
  for name in "$@"; do openssl x509 -in "$chain" -noout -ext subjectAltName | grep -q "DNS:$name" || fail "$chain is not for $name"; done
}
serial() { openssl x509 -in "$1" -noout -serial; }
is_revoked() { # is_revoked CHAIN
  curl -s --cacert "$ca" "$url/v1/pki/crl/pem" >"$work/crl.pem"
  # It fails, and has to say why.
  openssl verify -crl_check -CAfile "$work/root.pem" -CRLfile "$work/crl.pem" "$1" >"$work/verify.log" 2>&1 || true
  grep -q 'certificate revoked' "$work/verify.log"
}

if command -v certbot >/dev/null; then
  bot() { certbot --config-dir "$work/bot" --work-dir "$work/bot" --logs-dir "$work/bot" -n --server "$directory" --http-01-address "$address" "$@" >"$work/certbot.log" 2>&1; }
  bot certonly --agree-tos -m walk@example.test --standalone -d a.example.test -d b.example.test || fail "certbot issue"
  chain=$work/bot/live/a.example.test/fullchain.pem
  verify "$chain" a.example.test b.example.test
  ok "certbot issues for two names by http-01"
  first=$(serial "$chain")
  bot renew --force-renewal --no-random-sleep-on-renew || fail "certbot renew"
  verify "$chain" a.example.test b.example.test
  [ "$(serial "$chain")" != "$first" ] || fail "certbot renew: the same certificate"
  ok "certbot renews"
  cp "$work/bot/live/a.example.test/cert.pem" "$work/bot.pem"
  bot revoke --cert-name a.example.test --reason superseded --no-delete-after-revoke || fail "certbot revoke"
  is_revoked "$work/bot.pem" || fail "certbot: not on the list"
  openssl crl -in "$work/crl.pem" -noout -text | grep -q Superseded || fail "certbot: the list says no reason"
  ok "certbot revokes, and the list says why"
  bot update_account -m other@example.test || fail "certbot update_account"
  ok "certbot changes the contact of its account"
  cat >"$work/hook.sh" <<HOOK
#!/bin/sh
echo "\$CERTBOT_VALIDATION" >>"$work/texts/_acme-challenge.\$CERTBOT_DOMAIN"
HOOK
  chmod +x "$work/hook.sh"
  bot certonly --manual --manual-auth-hook "$work/hook.sh" --preferred-challenges dns -d '*.w.example.test' || fail "certbot dns-01"
  verify "$work/bot/live/w.example.test/fullchain.pem" '\*.w.example.test'
  ok "certbot issues for a wildcard by dns-01"
  bot revoke --cert-path "$work/bot/live/w.example.test/cert.pem" --key-path "$work/bot/live/w.example.test/privkey.pem" --no-delete-after-revoke || fail "certbot revoke by key"
  is_revoked "$work/bot/live/w.example.test/cert.pem" || fail "certbot: not on the list"
  ok "certbot revokes by the key of the certificate"
  for name in metadata half; do
    bot certonly --standalone -d $name.example.test && fail "certbot: issued for $name"
    grep -q 'does not connect to where the name leads' "$work/certbot.log" || fail "certbot: another refusal for $name"
  done
  ok "no connection is made to a metadata service, nor to a name that is half there"
  bot unregister || fail "certbot unregister"
  ok "certbot deactivates its account"
else
  echo "*** SKIPPED: certbot is not installed (apt-get install certbot)"
fi

if command -v lego >/dev/null; then
  go() { lego --path "$work/lego" --server "$directory" -a -m walk@example.test "$@" >"$work/lego.log" 2>&1; }
  go --http --http.port "$address:80" -d c.example.test run || fail "lego run by http-01"
  verify "$work/lego/certificates/c.example.test.crt" c.example.test
  ok "lego issues by http-01"
  first=$(serial "$work/lego/certificates/c.example.test.crt")
  go --http --http.port "$address:80" -d c.example.test renew --days 9999 --no-random-sleep || fail "lego renew"
  [ "$(serial "$work/lego/certificates/c.example.test.crt")" != "$first" ] || fail "lego renew: the same certificate"
  ok "lego renews"
  go --tls --tls.port "$address:443" -d d.example.test run || fail "lego run by tls-alpn-01"
  verify "$work/lego/certificates/d.example.test.crt" d.example.test
  ok "lego issues by tls-alpn-01"
  cp "$work/lego/certificates/d.example.test.crt" "$work/lego.pem"
  go -d d.example.test revoke || fail "lego revoke"
  is_revoked "$work/lego.pem" || fail "lego: not on the list"
  ok "lego revokes"
  acme '{"eab_policy":"always-required"}' >/dev/null
  go --path "$work/lego-eab" --http --http.port "$address:80" -d e.example.test run && fail "lego: an account without a binding"
  eab=$(ask -d '{}' "$url/v1/pki/roles/web/acme/new-eab")
  field() { python3 -c "import json,sys; print(json.loads(sys.argv[1])['data'][sys.argv[2]])" "$eab" "$1"; }
  go --path "$work/lego-eab" --eab --kid "$(field id)" --hmac "$(field key)" --http --http.port "$address:80" -d e.example.test run || fail "lego with a binding"
  ok "lego binds its account to a key that was handed out, and is refused without"
  acme '{"eab_policy":"not-required"}' >/dev/null
else
  echo "*** SKIPPED: lego is not installed (apt-get install lego)"
fi

if command -v dehydrated >/dev/null; then
  mkdir -p "$work/www/.well-known/acme-challenge" "$work/hydra"
  python3 -m http.server --bind "$address" --directory "$work/www" 80 >"$work/www.log" 2>&1 &
  www=$!
  pids+=("$www")
  for _ in $(seq 200); do curl -s -o /dev/null "http://$address/" && break; sleep 0.05; done
  cat >"$work/hydra/config" <<CONFIG
CA="$directory"
BASEDIR="$work/hydra"
WELLKNOWN="$work/www/.well-known/acme-challenge"
CURL_OPTS="--cacert $ca"
CONTACT_EMAIL=walk@example.test
KEY_ALGO=secp384r1
CONFIG
  hydra() { dehydrated --config "$work/hydra/config" "$@" >"$work/dehydrated.log" 2>&1; }
  hydra --register --accept-terms || fail "dehydrated --register"
  hydra --cron --domain f.example.test || fail "dehydrated --cron"
  verify "$work/hydra/certs/f.example.test/fullchain.pem" f.example.test
  ok "dehydrated issues by http-01"
  first=$(serial "$work/hydra/certs/f.example.test/cert.pem")
  hydra --cron --force --domain f.example.test || fail "dehydrated --force"
  [ "$(serial "$work/hydra/certs/f.example.test/cert.pem")" != "$first" ] || fail "dehydrated --force: the same certificate"
  ok "dehydrated renews"
  cp "$work/hydra/certs/f.example.test/cert.pem" "$work/hydra.pem"
  hydra --revoke "$work/hydra/certs/f.example.test/cert.pem" || fail "dehydrated --revoke"
  is_revoked "$work/hydra.pem" || fail "dehydrated: not on the list"
  ok "dehydrated revokes"
  kill "$www" 2>/dev/null || true
  # The next client listens at the same port.
  wait "$www" 2>/dev/null || true
else
  echo "*** SKIPPED: dehydrated is not installed (apt-get install dehydrated)"
fi

if [ -n "$instant" ]; then
  "$instant" "$directory" "$ca" "$address" "$work/texts" >"$work/instant.log" 2>&1 || {
    cat "$work/instant.log"
    fail "instant-acme"
  }
  cat "$work/instant.log"
else
  echo "*** SKIPPED: instant-acme could not be built"
fi

# Without leave, loopback is not looked at.
acme '{"challenge_permitted_ip_ranges":""}' >/dev/null
if command -v lego >/dev/null; then
  go --path "$work/lego-no" --http --http.port "$address:80" -d g.example.test run && fail "lego: loopback without leave"
  grep -q 'does not connect to where the name leads' "$work/lego.log" || fail "lego: another refusal"
  ok "loopback is refused where the settings do not permit it"
fi
