"""Reads the options in sacct's SubmitLine: the words of sbatch, salloc or srun, joined by blanks without quotes.

The words end at the first that is neither an option nor the value of one: the job's script, whose arguments may look like options.
The text of --wrap may have blanks, so nothing after it is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

HETEROGENEOUS = ":"
"""Key of a command line with several components, of which the options of the first are read."""

_WITH_VALUE = """
account= acctg-freq= array= batch= bb= bbf= begin= chdir= clusters= cluster= cluster-constraint= comment= constraint= container=
container-id= context= core-spec= cores-per-socket= cpu-bind= cpu-freq= cpus-per-gpu= cpus-per-task= deadline= delay-boot=
dependency= distribution= error= exclude= export= export-file= extra= extra-node-info= gid= gpu-bind= gpu-freq= gpus=
gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= hint= input= job-name= kill-on-invalid-dep= licenses= mail-type=
mail-user= mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= mincpus= mpi= network= nodefile= nodelist= nodes= ntasks=
ntasks-per-core= ntasks-per-gpu= ntasks-per-node= ntasks-per-socket= ntasks-per-tres= open-mode= output= partition= power=
prefer= priority= profile= qos= reservation= resources= segment= signal= sockets-per-node= switches= tasks-per-node=
thread-spec= threads-per-core= time= time-min= tmp= tres-bind= tres-per-job= tres-per-node= tres-per-socket= tres-per-task= uid=
wait-all-nodes= wckey= wrap= workdir= accel-bind= bcast-exclude= epilog= prolog= task-epilog= task-prolog= relative= het-group=
pack-group= threads= treewidth=
"""
_PLAIN = """
consolidate-segments contiguous disable-status external get-user-env hold ignore-pbs no-kill no-requeue oom-kill-step overcommit
oversubscribe parsable propagate quiet reboot requeue resv-ports share spread-job spread-segments stepmgr test-only use-min-nodes
verbose version wait exclusive nice help usage immediate kill-command kill-on-bad-exit label no-allocate no-bell bell no-shell
overlap preserve-env pty unbuffered x11 multi-prog bcast compress exact interactive whole
"""
_OPTIONS = {word.rstrip("="): word.endswith("=") for word in (*_WITH_VALUE.split(), *_PLAIN.split())}
"""Long options of Slurm 17.11 to 26.05, and whether the next word is the value. Others have one only after `=`."""
_SHORT = {
    "A": "account", "a": "array", "b": "begin", "C": "constraint", "c": "cpus-per-task", "D": "chdir", "d": "dependency",
    "e": "error", "F": "nodefile", "G": "gpus", "i": "input", "J": "job-name", "L": "licenses", "M": "clusters",
    "m": "distribution", "N": "nodes", "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "S": "core-spec",
    "t": "time", "w": "nodelist", "x": "exclude", "B": "extra-node-info", "r": "relative", "T": "threads", "H": "hold",
    "k": "no-kill", "O": "overcommit", "Q": "quiet", "s": "oversubscribe", "v": "verbose", "W": "wait", "I": "immediate",
    "K": "kill-command", "l": "label", "u": "unbuffered", "X": "disable-status", "E": "preserve-env", "Z": "no-allocate",
    "h": "help", "V": "version",
}  # fmt: skip
_SAME = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node", "workdir": "chdir", "share": "oversubscribe"}
_GLUED = frozenset("kKI")
"""Short options whose value, if there is one, is in the same word."""


@cache
def _long(name: str) -> str | None:
    """The long option of a name or an unambiguous beginning of one, as getopt_long(3) has it; None if there is none."""
    if name in _OPTIONS:
        return name
    found = [option for option in _OPTIONS if option.startswith(name)] if name else []
    return found[0] if len(found) == 1 else None


def options(line: str, unknown: list[str] | None = None) -> Mapping[str, str]:
    """The options before the script by their long names, with their values, "" for none. The last of several counts.

    Unknown long options, which may be those of plugins, are passed over; one that has its value in the next word ends the reading.
    With several components (`sbatch -n1 : -n2`) the key HETEROGENEOUS is there.
    unknown: gets the options that are unknown, as they are written, without values
    """
    others = [] if unknown is None else unknown
    found: dict[str, str] = {}
    words = line.split()[1:]
    place = 0

    def value_of(has_value: bool, glued: str | None) -> str:
        nonlocal place
        if glued is None and has_value and place < len(words):
            glued, place = words[place], place + 1
        text = glued or ""
        return text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[0] == text[-1] else text

    while place < len(words):
        word, place = words[place], place + 1
        if word == "--":
            break
        if word == HETEROGENEOUS:
            found[HETEROGENEOUS] = ""
            break
        if word.startswith("--"):
            name, equals, rest = word[2:].partition("=")
            option = _long(name)
            if option is None:
                others.append(f"--{name}")
                continue
            found[_SAME.get(option, option)] = value_of(_OPTIONS[option], rest if equals else None)
            if option == "wrap":
                break
        elif re.match(r"-[A-Za-z]", word):
            letters = word[1:]
            while letters and (letter := letters[0]) in _SHORT:
                option, letters = _SHORT[letter], letters[1:]
                if _OPTIONS[option] or letter in _GLUED:
                    found[option] = value_of(_OPTIONS[option], letters or None)
                    letters = ""
                    break
                found[option] = ""
            if letters:
                others.append(f"-{letters}")
                break
        else:
            break
    return found
