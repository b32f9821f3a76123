#!/usr/bin/env bash
# Three servers of Kallisto beside three of etcd, on this one machine: the same work at each, in turns.
#
#   bench/cluster/run.sh            everything, about 25 minutes
#   bench/cluster/run.sh --quick    shorter loads, 10 kills, 100,000 secrets; about 6 minutes
#   bench/cluster/run.sh --only puts,rates       the groups whose names are given
#   bench/cluster/run.sh --dry      everything but writing into docs/
#
# Groups: puts (closed loop), rates (open loop), failover, stepdown, reads, catchup. Gets etcd as a Debian package (no root) into
# target/peers and builds the load program with Go. Writes the tables between the markers of docs/benchmarks/cluster.md and
# everything measured into target/peers/cluster.json. Without Go or etcd their rows are skipped, loudly.
#
# KALLISTO=path takes a binary that is there instead of building one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
cache=$target/peers

say() { echo "cluster: $*" >&2; }

. "$root/bench/peers/setup.sh"
need python3 go
get_kallisto
get_packages etcd-server
(cd "$here" && GOPATH=$cache/gopath GOFLAGS=-modcacherw timeout 600 go build -o "$cache/cluster-load" .)

export KALLISTO PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/bench/peers
exec python3 "$here/drive.py" --cache "$cache" --root "$root" "$@"
