"""The command line `mirage TARGET KNOB=VALUE ...`: knobs as words, help, and which targets need a checkout."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Iterable, MutableMapping, Sequence

from mirage import IS_CHECKOUT
from mirage.commands import main as targets
from mirage.experiment.endings import Ending
from mirage.knobs.knob import Knob
from mirage.knobs.resolve import GIVEN, user_message
from mirage.knobs.table import TABLE
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse

WITHOUT_CLUSTER = {
    "metrics": "metrics of a recorded schedule (TRACE), without any cluster",
    "simulate": "the quick answer beside the emulation: simple schedulers (POLICY) in a simulation without Slurm",
    "workload": "generate a workload (MODEL, JOBS, SEED) or convert one (TRACE) into OUT",
    "workload-report": "a page about a workload (TRACE or MODEL): sizes, run times, submissions, estimates, load",
    "report": "make report.html of a finished run, sweep or comparison (RUN) again, from the files beside it",
    "diff": "the first job that starts at another instant in the second of two runs (RUNS), with both queues",
    "why": "why the jobs of a finished run (RUN) waited, and what to try; of one (JOB) span by span",
    "check": "compute every number of a finished run, sweep or comparison (RUN) again from its records, and compare",
    "example-site": "an imaginary site's week (NODES, JOBS, SEED) into ARCHIVE, as mirage-capture takes a real one",
    "figure-load": "average load of conservative backfilling against the accuracy of estimates, simulated",
}
"""Targets that need no cluster, with their lines of `make help`. They run without a checkout too."""
_HELP = ("help", "-h", "--help")
_KNOB = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)


def main(arguments: Sequence[str], give_up_root: Callable[[str, MutableMapping[str, str]], None] | None = None) -> int:
    """Print help, or run a target with the knobs among the arguments. Returns the exit code.

    give_up_root: called with a target that needs no cluster and with the knobs, if the caller is root
    """
    screen = Screen()
    if not arguments or any(word in _HELP for word in arguments):
        named = [word for word in arguments if word in WITHOUT_CLUSTER]
        screen.say(*usage(named or WITHOUT_CLUSTER).splitlines())
        return 0
    try:
        names, knobs = parse(arguments)
        for name in names:
            if not IS_CHECKOUT and name in targets.TARGETS and name not in WITHOUT_CLUSTER:
                raise WrongUse(f"{name} needs a checkout of Slurm Mirage, where `make {name}` runs it")
        if knobs:
            os.environ.update({**knobs, GIVEN: " ".join(knobs)})
        if give_up_root is not None and os.geteuid() == 0 and names and names[0] in WITHOUT_CLUSTER:
            give_up_root(names[0], os.environ)
    except WrongUse as error:
        ending = Ending("wrong use", user_message(error))
        screen.say(ending.line)
        return ending.code
    return targets.main(names)


def parse(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The target, if there is one, and the knobs by name, in any order as with make; of a knob that is given twice the last value.
    Raises WrongUse for other words."""
    matches = [(word, _KNOB.fullmatch(word)) for word in arguments]
    others = [word for word, match in matches if match is None]
    if len(others) > 1:
        raise WrongUse(f"{others[1]!r} is not a knob; a knob is given as in TAU=10")
    return others, {match[1]: match[2] for _, match in matches if match is not None}


def usage(names: Iterable[str]) -> str:
    """The help text: the targets with their knobs, and what the knobs mean."""
    used = {name: [knob for knob in TABLE if name in knob.targets] for name in names}
    parts = ["mirage TARGET KNOB=VALUE ..., as in: mirage metrics TRACE=log.swf TAU=10", ""]
    for name, knobs in used.items():
        parts.append(f"  {name:15} {WITHOUT_CLUSTER[name]}")
        parts.append(textwrap.fill(" ".join(knob.name for knob in knobs), 100, initial_indent=" " * 18, subsequent_indent=" " * 18))
    others = ", ".join([*(target for target in targets.TARGETS if target not in WITHOUT_CLUSTER), "study"])
    parts += ["", textwrap.fill(f"In a checkout only, by make: {others}.", 100), "", "Knobs, also read from the environment:", ""]
    parts += _rows([knob for knob in TABLE if any(knob in knobs for knobs in used.values())])
    return "\n".join(parts)


def _rows(knobs: Sequence[Knob]) -> list[str]:
    """A line for each knob: name, default, meaning."""
    defaults = [knob.default or knob.shown or "-" for knob in knobs]
    width = max(len(default) for default in defaults)
    return [f"  {knob.name:13} {default:{width}} {knob.meaning}" for knob, default in zip(knobs, defaults, strict=True)]
