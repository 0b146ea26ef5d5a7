#!/usr/bin/env bash
# Runs all Molecule scenarios. Ends with the messages of the tasks that failed and with the names of the scenarios that passed and that
# did not: Molecule prints the messages thousands of lines above its end, and does not name a scenario that was never started.
# The scenario openpbs needs an archive of OpenPBS's source, OPENPBS_SOURCE or that of an earlier test, and is skipped without one.
set -euo pipefail
cd "$(dirname "$0")/.."

# The output goes through a pipe, where Molecule and Ansible would use no colours.
if [[ -t 1 ]]; then
    export FORCE_COLOR=1 ANSIBLE_FORCE_COLOR=1
fi
# Molecule's state of each scenario belongs to this clone, not to the user's home.
export ANSIBLE_HOME=$PWD/.ansible

skipped=()
if [[ -z ${OPENPBS_SOURCE:-} && ! -e /var/cache/slurm-mirage/source/openpbs.tar.gz ]]; then
    skipped=(openpbs)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
result=0
molecule test --all "${skipped[@]/#/--exclude=}" 2>&1 | tee "$log" || result=$?

plain=$(sed 's/\x1b\[[0-9;]*m//g' "$log")

# Of a long message the first lines, which name the task, and the last lines, which hold the output of its command.
awk '
    { sub(/^ *│ ?/, "") }
    /^(TASK|RUNNING HANDLER|PLAY)/ { if (failed) message = task; task = ""; failed = 0 }
    /^(\[ERROR\]|fatal:|failed:)/ { failed = 1 }
    { task = task substr($0, 1, 200) "\n" }
    /^CRITICAL/ {
        n = split(message, line, "\n")
        for (i = 1; i < n; i++) if (i <= 16 || i >= n - 8) print line[i]
        message = ""
    }
' <<<"$plain"

# Molecule ends with a line for each scenario that it ran.
passed=() others=()
lines=$(grep -E ' : actions=.* failed=0 *$' <<<"$plain" || true)
for folder in molecule/*/molecule.yml; do
    scenario=$(basename "$(dirname "$folder")")
    if [[ " ${skipped[*]} " == *" $scenario "* ]]; then
        continue
    elif grep -q "^$scenario " <<<"$lines"; then
        passed+=("$scenario")
    else
        others+=("$scenario")
    fi
done
((${#skipped[@]} == 0)) || echo "skipped: ${skipped[*]} (OPENPBS_SOURCE names no archive of OpenPBS's source)"
echo "scenarios that passed: ${passed[*]:-none}; failed or not run: ${others[*]:-none}"
((${#others[@]} == 0)) || result=$((result ? result : 1))
exit "$result"
