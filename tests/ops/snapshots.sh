#!/usr/bin/env bash
# Scheduled snapshots against a directory and an S3 server that nobody here wrote (moto_server, from PyPI): written, read back,
# kept to a number; a wrong bucket, a far end that is gone, and what is shown of the keys.
#   tests/ops/snapshots.sh KALLISTO [MOTO_SERVER]
set -euo pipefail
kallisto=$(realpath "${1:?usage: $0 KALLISTO [MOTO_SERVER]}")
moto=${2:-$(command -v moto_server || true)}
dir=$(mktemp -d); pids=()
end() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait 2>/dev/null || true; rm -rf "$dir"; }
trap end EXIT
fail() { echo "FAILED: $*" >&2; tail -20 "$dir/log" >&2; exit 1; }
port() { python3 "$(dirname "${BASH_SOURCE[0]}")/../free_ports.py"; }
api=$(port); peer=$(port); s3=$(port)
cat > "$dir/server.hcl" <<HCL
storage "raft" {
  path = "$dir/data"
  node_id = "n1"
}
listener "tcp" {
  address = "127.0.0.1:$api"
  tls_disable = true
}
api_addr = "http://127.0.0.1:$api"
cluster_addr = "https://127.0.0.1:$peer"
HCL
mkdir "$dir/data"
"$kallisto" server -config="$dir/server.hcl" > "$dir/log" 2>&1 & pids+=($!)
export VAULT_ADDR=http://127.0.0.1:$api
for _ in $(seq 100); do code=0; "$kallisto" status > /dev/null 2>&1 || code=$?; [ "$code" = 2 ] && break; sleep 0.1; done
"$kallisto" operator init -key-shares=1 -key-threshold=1 -format=json > "$dir/init"
of() { python3 -c "import json, sys; print(json.load(open('$dir/init'))$1)"; }
of '["unseal_keys_b64"][0]' > "$dir/shares"
"$kallisto" operator unseal - < "$dir/shares" > /dev/null
VAULT_TOKEN=$(of '["root_token"]'); export VAULT_TOKEN
"$kallisto" secrets enable -version=2 -path=secret kv > /dev/null
"$kallisto" kv put secret/a x=1 > /dev/null
config=sys/storage/raft/snapshot-auto/config status=sys/storage/raft/snapshot-auto/status
# until NAME FIELD VALUE: the status comes to say so.
until_says() {
  for _ in $(seq 300); do
    said=$("$kallisto" read -field="$2" "$status/$1" 2>/dev/null || true)
    [[ $said =~ $3 ]] && return; sleep 0.2
  done
  fail "$1: $2 is '$said', not '$3'"
}

"$kallisto" write $config/here interval=10s retain=2 storage_type=local path_prefix="$dir/snaps" local_max_space=100000000 > /dev/null
until_says here last_snapshot_verified '^true$'
file=$(ls "$dir"/snaps/*.snap | tail -1)
"$kallisto" operator raft snapshot verify -shares-file="$dir/shares" "$file"
[ "$(stat -c %a "$file")" = 600 ] || fail "others may read $file"
until_says here snapshots_kept '^2$'
sleep 11
until_says here snapshots_kept '^2$'
[ "$(ls "$dir"/snaps/*.snap | wc -l)" = 2 ] || fail "more than two are kept"
"$kallisto" write $config/small interval=1h retain=2 storage_type=local path_prefix="$dir/small" local_max_space=100 > /dev/null
until_says small last_snapshot_error 'local_max_space'
[ -z "$(ls "$dir/small")" ] || fail "a snapshot that had no room has left something"
curl -fsS -H "X-Vault-Token: $VAULT_TOKEN" "$VAULT_ADDR/v1/sys/metrics?format=prometheus" | grep -q 'kallisto_snapshots_last_verified_time_seconds{name="here"} 1[0-9]*' || fail "no metric of the last snapshot"
"$kallisto" write $config/bad interval=1h storage_type=local path_prefix=relative local_max_space=1 2>/dev/null && fail "a relative path was taken"
"$kallisto" delete $config/here > /dev/null
echo "snapshots in a directory: well"

if [ -z "$moto" ]; then echo "*** SKIPPED: snapshots in S3: there is no moto_server (pip install 'moto[server]')"; exit 0; fi
"$moto" -H 127.0.0.1 -p "$s3" > "$dir/moto.log" 2>&1 & moto_pid=$!; pids+=($moto_pid)
for _ in $(seq 150); do curl -fsS "http://127.0.0.1:$s3/moto-api/" > /dev/null 2>&1 && break; sleep 0.2; done
s3_curl() { curl -fsS --aws-sigv4 aws:amz:us-east-1:s3 -u a:b "$@"; }
s3_curl -X PUT "http://127.0.0.1:$s3/backups" > /dev/null
secret=wJalrXUtnFEMI-not-to-be-seen
s3_config() { "$kallisto" write "$config/$1" interval=10s retain=2 storage_type=aws-s3 aws_s3_bucket="$2" aws_s3_region=us-east-1 \
  aws_s3_endpoint="http://127.0.0.1:$s3" aws_s3_force_path_style=true path_prefix=kallisto aws_access_key_id=AKIDEXAMPLE "${@:3}" > /dev/null; }
s3_config far backups aws_secret_access_key=$secret
until_says far last_snapshot_verified '^true$'
"$kallisto" read $config/far | grep -q "$secret" && fail "the key is shown"
s3_config far backups
until_says far snapshots_kept '^2$'
key=$(s3_curl "http://127.0.0.1:$s3/backups?list-type=2" | grep -o '<Key>[^<]*' | tail -1 | cut -c6-)
s3_curl "http://127.0.0.1:$s3/backups/$key" > "$dir/far.snap"
"$kallisto" operator raft snapshot verify -shares-file="$dir/shares" "$dir/far.snap"
# One out of the bucket is loaded next to what runs, and a secret comes back as it was.
"$kallisto" kv put secret/a x=2 > /dev/null
loaded=$("$kallisto" write -field=snapshot_id sys/storage/raft/snapshot-auto/snapshot-load/far url="s3://backups/$key")
[ "$("$kallisto" read -format=json secret/data/a read_snapshot_id="$loaded" | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"]["data"]["x"])')" = 1 ] \
  || fail "a snapshot out of the bucket is not read"
"$kallisto" recover -snapshot-id="$loaded" secret/a > /dev/null || fail "nothing is recovered out of the bucket"
[ "$("$kallisto" kv get -field=x secret/a)" = 1 ] || fail "the secret is not as it was"
"$kallisto" operator raft snapshot unload "$loaded" > /dev/null
"$kallisto" write sys/storage/raft/snapshot-auto/snapshot-load/far url="s3://backups/nosuch.snap" 2>"$dir/nosuch" && fail "a file that is not there was loaded"
s3_config wrong nosuchbucket aws_secret_access_key=$secret
until_says wrong last_snapshot_error 'NoSuchBucket'
kill $moto_pid; wait $moto_pid 2>/dev/null || true
until_says far consecutive_errors '^[1-9]'
"$kallisto" read $status/far | grep -q 'last_snapshot_verified *true' || fail "an outage took back what was verified"
grep -q "$secret" "$dir/log" && fail "the key is in the log"
echo "snapshots in S3: well"
