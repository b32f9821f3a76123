#!/usr/bin/env bash
# Records what servers at work spend their time on, for the compiler: writes .cargo/profile/servers.profdata, which release builds use.
#
#   bench/profile/run.sh          about half an hour, of which two minutes are load
#
# Builds Kallisto so that it counts, lets it serve the loads of train.py, and merges the counts. Run it before a release, and after a change of what
# reads, writes or logins go through: what a function counted holds for it only until it changes. Needs rustup, for `llvm-profdata` of the same LLVM.
# CORES=0,1 says which cores the servers and the load get.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
cache=$target/peers
counts=$target/profile/counts

say() { echo "profile: $*" >&2; }

. "$root/bench/peers/setup.sh"
need python3 taskset rustup
rustup component add llvm-tools
merge=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/llvm-profdata

say "building kallisto so that it counts (release)"
(cd "$root" && KALLISTO_PROFILE=$counts CARGO_TARGET_DIR=$target/profile cargo build --release --locked --package kallisto)
rm -rf "$counts"
KALLISTO=$target/profile/release/kallisto PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/bench/peers \
  python3 "$here/train.py" --cache "$cache" --root "$root"
"$merge" merge --text --output="$target/profile/all.proftext" "$counts"
python3 "$here/trim.py" <"$target/profile/all.proftext" >"$target/profile/servers.proftext"
"$merge" merge --output="$root/.cargo/profile/servers.profdata" "$target/profile/servers.proftext"
say "$(wc -c <"$root/.cargo/profile/servers.profdata") bytes in .cargo/profile/servers.profdata, of $(rustc --version)"
