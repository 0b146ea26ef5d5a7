"""`make capture`: runs files/capture/mirage-capture in the instance, as its user, and writes the archive."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from mirage.commands.shell import command as shell_command
from mirage.experiment import preflight
from mirage.experiment.endings import Ending, Failed
from mirage.knobs.knobs import Knobs
from mirage.site.archive import open_archive
from mirage.terminal.screen import Screen
from mirage.text.input_file import writable
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.managers import DEFAULT, manager_of
from slurm_mirage.rm.registry import IMPLEMENTATIONS

SCRIPT = Path(__file__).parents[2] / "files" / "capture" / "mirage-capture"
WEEK = 7 * 86400
# Reads the script from standard input, as the instance's user may not see the clone, and writes the archive to standard output.
# The instance's clock says what now is. The key stays in the home folder: all archives of an instance have the same pseudonyms.
_IN_THE_INSTANCE = f"""
to=${{2:-$(date +%s)}}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
case $3 in yes) end=--now ;; *) end="--to $to" ;; esac
python3 - --from "${{1:-$((to - {WEEK}))}}" $end --out "$folder" >&2 || exit
cat "$folder"/*.tar
"""


def command(directory: Path, cluster: str, begin: str, end: str, now: str = "no") -> list[str]:
    """The command that captures the window from `begin` to `end`: dates, or empty for the week before now. now: yes takes the
    queue, too.

    Raises Failed if no farm runs.
    """
    words = shell_command(directory, cluster)
    return [*words[: words.index("bash")], "sh", "-c", _IN_THE_INSTANCE, "sh", begin, end, now]


def capture(knobs: Knobs, screen: Screen) -> Ending:
    """Write ARCHIVE, which appears only when it is complete."""
    cluster = knobs.cluster
    path = Path(knobs.output.archive or f"results/capture-{cluster.name}.tar")
    if not knobs.output.archive:
        path.parent.mkdir(exist_ok=True)
    writable(path, "archive")
    begin, end = knobs.workload.begin or "", knobs.workload.end or ""
    if end and knobs.output.now == "yes":
        raise WrongUse("the window ends now with NOW=yes; it may be nothing then", parameter="to", value=end)
    preflight.privileges(cluster)
    directory = preflight.instance_directory(cluster)
    if not directory.exists():
        raise WrongUse(
            "make capture takes a cluster on this machine; call it on the head, in a clone that is there", parameter="inventory"
        )
    if (manager := manager_of(directory)) != DEFAULT:
        owner = IMPLEMENTATIONS[manager].records.names.manager
        raise WrongUse(f"{cluster.name} is a cluster of {owner}; only Slurm's records can be captured", parameter="cluster")
    new = path.with_name(f"{path.name}.new")
    try:
        _run(command(directory, cluster.name, begin, end, knobs.output.now), new, screen)
        open_archive(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return Ending("ok", f"{path}, {path.stat().st_size / 1e6:.1f} MB")


def _run(words: Sequence[str], path: Path, screen: Screen) -> None:
    """Run the script, show what it says, and write the archive to `path`. Raises WrongUse or Failed with the script's last line."""
    last = ""
    with SCRIPT.open("rb") as script, path.open("wb") as archive:
        process = subprocess.Popen(words, stdin=script, stdout=archive, stderr=subprocess.PIPE, text=True, errors="replace")
        assert process.stderr is not None
        for line in process.stderr:
            last = line.strip() or last
            if not last.startswith(("ok: ", "wrong use: ", "failed: ", "read the files ")):
                screen.say(last)
    if process.wait():
        if last.startswith("wrong use: "):
            raise WrongUse(last.removeprefix("wrong use: "), parameter="from, to")
        raise Failed(last.removeprefix("failed: ") or "the capture was ended")
