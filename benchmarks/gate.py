"""How often a gate passes or fails, and after how many pairs of runs, where the true change is known: judged as a gate judges them.

    python -m benchmarks.gate [GATES]

needs no cluster. The noise of the runs has one mode, or two: some of the phases have much longer waits, all others none. Shares of
the latter are exact, of the former from GATES gates (2,000), which takes a quarter of an hour. A change at its
limit or beyond may pass in at most 2.5 % of the gates, one at its limit or within may fail in at most 2.5 %.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.stats import binom

from mirage.statistics.intervals import Floats
from mirage.statistics.limits import BROKEN, DEFAULT, HOLDS, LOOKS, UNDECIDED, Answer, Limit, Pairs, all_of, parse
from slurm_mirage.base.printing import say

GATES = 2000
MOST = 0.025
BASE = 100.0
MODES = ((0.5, 0.12), (0.3, 0.2), (0.2, 0.3), (0.1, 0.6))
"""Share of the phases that wait longer, and by which share: 6 % in the mean."""
ONE, FIVE = parse("wait_mean:+5%"), parse(DEFAULT)
END = (UNDECIDED, LOOKS[-1])
_NEGLIGIBLE = 1e-9  # a probability

Shares = dict[tuple[str, int], float]
"""Share of the gates by verdict and number of pairs."""
Values = tuple[Floats, Floats]
"""Before and after, (pairs, limits)."""


def exact(share: float, change: float, limit: Limit = ONE[0]) -> Shares:
    """Of a share of the phases that has a change, when nothing else varies: which pairs are in them decides all."""
    found: Shares = defaultdict(float)
    reached, seen = np.ones(1), 0  # probability of each number of such pairs, of gates that are not decided
    for pairs in LOOKS:
        more = binom.pmf(np.arange(pairs - seen + 1), pairs - seen, share)
        reached, seen = np.convolve(reached, more), pairs
        for number in np.flatnonzero(reached > _NEGLIGIBLE):
            after = np.where(np.arange(pairs) < number, BASE * (1 + change), BASE)
            verdict, _ = Pairs(np.full(pairs, BASE), after).judge(limit, 1)
            if verdict != UNDECIDED:
                found[verdict, pairs] += float(reached[number])
                reached[number] = 0
    found[END] += float(reached.sum())
    return found


def gate(values: Values, limits: Sequence[Limit]) -> tuple[str, int]:
    """Verdict, and number of pairs. values: of as many pairs as the last look needs"""
    before, after = values
    for pairs in LOOKS:
        of_each = (Pairs(before[:pairs, k], after[:pairs, k]).judge(limit, len(limits)) for k, limit in enumerate(limits))
        answers = [Answer(limit, verdict, pairs, None, None) for limit, (verdict, _) in zip(limits, of_each, strict=True)]
        if (verdict := all_of(answers)) != UNDECIDED:
            return verdict, pairs
    return END


def simulated(
    draw: Callable[[np.random.Generator], Values], limits: Sequence[Limit] = ONE, gates: int = GATES, seed: int = 1
) -> Shares:
    """Of gates whose values are drawn."""
    random = np.random.default_rng(seed)
    counts = Counter(gate(draw(random), limits) for _ in range(gates))
    return {key: count / gates for key, count in counts.items()}


def normal(change: float, deviation: float, limits: Sequence[Limit] = ONE, correlation: float = 0.0) -> Callable[..., Values]:
    """Draws of normal values, all metrics worse by a change. correlation: between the metrics of a run"""
    worse = np.array([-change if limit.higher_is_better else change for limit in limits])

    def values(random: np.random.Generator) -> Floats:
        size = (LOOKS[-1], len(limits))
        common = random.normal(size=(size[0], 1))
        drawn: Floats = deviation * (np.sqrt(correlation) * common + np.sqrt(1 - correlation) * random.normal(size=size))
        return drawn

    return lambda random: (BASE * (1 + values(random)), BASE * (1 + worse + values(random)))


def lognormal(change: float, deviation: float) -> Callable[..., Values]:
    """Draws of one metric with a long tail; deviation: of the logarithm"""
    size = (LOOKS[-1], 1)
    return lambda random: (
        BASE * random.lognormal(-(deviation**2) / 2, deviation, size),
        BASE * (1 + change) * random.lognormal(-(deviation**2) / 2, deviation, size),
    )


def share_of(found: Shares, verdict: str) -> float:
    """Share of the gates with a verdict."""
    return sum(share for (one, _), share in found.items() if one == verdict)


def pairs_of(found: Shares) -> str:
    """By how many pairs half, and nine tenths, of the decided gates are decided."""
    decided = sorted((pairs, share) for (verdict, pairs), share in found.items() if verdict != UNDECIDED and share > _NEGLIGIBLE)
    whole = np.cumsum([share for _, share in decided])
    return ", ".join(str(decided[np.searchsorted(whole, part * whole[-1])][0]) for part in (0.5, 0.9)) if decided else "-"


def rows(gates: int) -> dict[str, tuple[Callable[[], Shares], bool, bool]]:
    """By title: how the shares are found, and whether a pass, and whether a failure, would be wrong."""
    draw, of_five = partial(simulated, gates=gates), partial(simulated, limits=FIVE, gates=gates)
    found: dict[str, tuple[Callable[[], Shares], bool, bool]] = {}
    for share, change in MODES:
        found[f"{share:.0%} of the phases +{change:.0%}: +6 %"] = partial(exact, share, change), True, False
        found[f"{share:.0%} of the phases +{0.05 / share:.0%}: at the limit"] = partial(exact, share, 0.05 / share), True, True
    found["normal, deviation 3 %: at the limit"] = partial(draw, normal(0.05, 0.03)), True, True
    found["lognormal, deviation 30 %: at the limit"] = partial(draw, lognormal(0.05, 0.3)), True, True
    for correlation in (0.0, 0.7):
        title = f"five limits, normal, deviation 3 %, correlation {correlation:g}: all at the limit"
        found[title] = partial(of_five, normal(0.05, 0.03, FIVE, correlation)), True, True
    found["no change, equal runs"] = partial(exact, 0.0, 0.0), False, True
    for deviation in (0.01, 0.03, 0.1):
        found[f"no change, normal, deviation {deviation:.0%}"] = partial(draw, normal(0.0, deviation)), False, True
    found["no change, five limits, normal, deviation 3 %"] = partial(of_five, normal(0.0, 0.03, FIVE)), False, True
    found["+8 %, normal, deviation 3 %"] = partial(draw, normal(0.08, 0.03)), True, False
    found["+30 %, five limits, normal, deviation 3 %"] = partial(of_five, normal(0.3, 0.03, FIVE)), True, False
    return found


def main() -> int:
    """Print the table. Returns 0 if no wrong answer is given too often."""
    gates, holds = int(sys.argv[1]) if len(sys.argv) > 1 else GATES, True
    say("| limit +5 % | passed, % | failed | undecided | pairs of 50, 90 % of the decided |", "|---|---|---|---|---|")
    for title, (find, no_pass, no_failure) in rows(gates).items():
        found = find()
        passed, failed = share_of(found, HOLDS), share_of(found, BROKEN)
        holds &= not (no_pass and passed > MOST) and not (no_failure and failed > MOST)
        shares = " | ".join(f"{100 * share:.1f}" for share in (passed, failed, 1 - passed - failed))
        say(f"| {title} | {shares} | {pairs_of(found)} |")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
