#!/usr/bin/env bash
# All that CI runs, with the time that each part takes. Lint runs beside the unit tests, which leave parts of the processors idle, at the
# lowest priority; its output follows theirs.
set -euo pipefail
cd "$(dirname "$0")/.."

run() {
    local began=$SECONDS
    make "$1" || return
    echo "make $1 took $((SECONDS - began)) s"
}

run packages
make environment
log=$(mktemp)
nice -n 19 make lint >"$log" 2>&1 &
lint=$!
trap 'kill "$lint" 2>/dev/null || true; rm -f "$log"' EXIT
result=0
began=$SECONDS
run unit || result=$?
wait "$lint" || result=$?
trap 'rm -f "$log"' EXIT # the number of a process that has ended may be another one's
cat "$log"
echo "make lint and make unit took $((SECONDS - began)) s"
((result == 0)) || exit "$result"
run faults-quick
run molecule
