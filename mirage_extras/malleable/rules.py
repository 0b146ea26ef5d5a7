"""Rules of MALLEABLE_JOBS: the sizes between which a job of a log or of a model may change, by the size that it has there.

| rule | the words of a job with n nodes |
|---|---|
| `recorded` | minimum and maximum by the efficiency of its speed-up, n as preferred size: the rule of Wagomu's job generator |
| `dmr` | the applications of the model `dmr`: 32 nodes is conjugate gradient or Jacobi, 16 nodes is N-body |
| `sleep` | flexible sleep, the synthetic application of the same study: 1 to 20 nodes, no preferred size |

Further words of a rule: `preferred=recorded` (n itself; for dmr that of the application), `preferred=mean` (the size nearest to the
middle of the range) or `preferred=none`, and check=, inhibitor=, cost= and async of `slurm_mirage.extras.malleable.words`.

Source of `recorded`: github.com/projectwagomu/MalleableJobScheduling, scripts/input_generation/jobGenerator.py, the generator of
Posner, Hupfeld and Finnerty, "Enhancing supercomputer performance with malleable job scheduling strategies", Euro-Par workshops
2023.

- A job's preferred size is the size that it was drawn with.
- Its speed-up is Amdahl's, with that of 12 parallel fractions for which the efficiency (speed-up / nodes) at the preferred size is
  the nearest above 0.8.
- The minimum is the largest size with an efficiency above 0.95, but at most the preferred size.
- The maximum is the largest size with an efficiency above 0.5, and at most half of the machine (16 of 32 nodes).

Three things differ here. Sizes are n multiplied and divided by 2, not powers of two. A job of 1 node has an efficiency of 1 with
every fraction: it gets the smallest one, where the generator takes the first in its list. A job that fills more than half of the
machine keeps its size as its maximum.
"""

from __future__ import annotations

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.malleable.words import Malleable, Speedup, reachable

FACTOR = 2
FRACTIONS = (0.95, 0.955, 0.96, 0.965, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 0.999, 0.9999)
"""Parallel fractions of Wagomu's job generator."""
AT_MINIMUM, AT_PREFERRED, AT_MAXIMUM = 0.95, 0.8, 0.5
"""Efficiencies of Wagomu's job generator."""
PREFERENCES = ("recorded", "mean", "none")
APPLICATIONS = {
    32: "2:32:2:8 check=15 speedup=amdahl:0.905 cost=0.42:0",
    16: "1:16:2:1 check=50 speedup=amdahl:0.36 cost=0.42:0",
}
"""Words of the applications of the model dmr by their size.

Ranges, preferred sizes and the period of 32 nodes are those of table 1; N-body has no period there, and gets one of its 25
iterations. Parallel fractions: mirage/workloads/models/dmr.py. The cost is the mean time of an action in table 2, expansions and
shrinks alike.
"""
FLEXIBLE_SLEEP = "1:20:2:- check=5 cost=0.42:0"
"""Words of the flexible sleep of table 1, which scales linearly. Its period is an assumption."""


def words_of(rule: str, nodes: int, most: int) -> str:
    """The words of a job that has so many whole nodes, on a machine of `most` nodes; "" for a job that has no other size.

    Raises WrongUse for a text that is not a rule, and for a job that the rule does not cover.
    """
    name, *words = rule.split() or [""]
    preference, options = "recorded", []
    for word in words:
        key, _, value = word.partition("=")
        if key == "preferred" and value not in PREFERENCES:
            raise _wrong(f"{word!r} may be {', '.join(f'preferred={one}' for one in PREFERENCES)}")
        if key == "speedup":
            raise _wrong(f"{word!r}: the rule {name} has speed-ups of its own; for others give MIN:MAX:FACTOR:PREFERRED")
        if key == "preferred":
            preference = value
        else:
            options.append(word)
    if name == "recorded":
        text = _recorded(nodes, most)
    elif name == "dmr":
        text = _of_application(nodes, most)
    elif name == "sleep":
        text = FLEXIBLE_SLEEP
    else:
        raise _wrong(f"{name!r} may be MIN:MAX:FACTOR:PREFERRED with options, or the rule recorded, dmr or sleep")
    _, *given = text.split()
    replaced = {word.partition("=")[0] for word in options}
    chosen = Malleable.parse(
        " ".join([text.split()[0], *(word for word in given if word.partition("=")[0] not in replaced), *options])
    )
    sizes = reachable(nodes, chosen.minimum, chosen.maximum, chosen.factor)
    if set(sizes) <= {nodes}:
        return ""
    return _with_preference(chosen, sizes, preference)


def fraction_of(nodes: int) -> float:
    """The parallel fraction of a job of so many nodes: the one whose efficiency there is the nearest above `AT_PREFERRED`."""
    enough = [one for one in FRACTIONS if efficiency(one, nodes) > AT_PREFERRED]
    return enough[0] if enough else FRACTIONS[-1]


def efficiency(parallel: float, nodes: int) -> float:
    """Speed-up by Amdahl's law over the number of nodes."""
    return Speedup(parallel).of(nodes) / nodes


def _recorded(nodes: int, most: int) -> str:
    parallel = fraction_of(nodes)
    sizes = reachable(nodes, 1, max(nodes, most // 2), FACTOR)
    below = [one for one in sizes if one <= nodes and efficiency(parallel, one) > AT_MINIMUM]
    above = [one for one in sizes if one >= nodes and efficiency(parallel, one) > AT_MAXIMUM]
    return f"{max(below, default=sizes[0])}:{max(above, default=nodes)}:{FACTOR}:{nodes} speedup=amdahl:{parallel:g}"


def _of_application(nodes: int, most: int) -> str:
    if nodes not in APPLICATIONS and (nodes, most) != (1, 1):
        sizes = " or ".join(map(str, sorted(APPLICATIONS)))
        raise _wrong(f"the rule dmr knows jobs of {sizes} nodes, and one has {nodes}; it is for MODEL=dmr CPUS=1 NODES=32 or more")
    return APPLICATIONS.get(nodes, APPLICATIONS[32])


def _with_preference(chosen: Malleable, sizes: list[int], preference: str) -> str:
    """The words of the job with another preferred size."""
    middle = (chosen.minimum + chosen.maximum) / 2
    nearest = min(sizes, key=lambda size: (abs(size - middle), size))
    preferred = {"recorded": chosen.preferred, "mean": nearest, "none": None}[preference]
    head, *rest = chosen.text().split()
    limits = head.rpartition(":")[0]
    return " ".join([f"{limits}:{preferred or '-'}", *rest])


def _wrong(text: str) -> WrongUse:
    return WrongUse(text, parameter="malleable_jobs")
