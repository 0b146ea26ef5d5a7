"""False and missed claims about replicas that fall into groups of values: made pairs of configurations whose truth is known.

    python -m benchmarks.claims

needs no cluster, takes a minute, and prints the shares behind docs/comparison-method.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, cycle, islice
from math import factorial, prod

import numpy as np

from benchmarks.figures import markdown
from mirage.statistics.claims import is_equivalent
from mirage.statistics.inference import Chance
from mirage.statistics.intervals import Floats
from slurm_mirage.base.printing import say

MARGIN = 5.0
REPLICAS = (2, 3, 5, 10)
TABLES = 4000
NOISE = 5e-4
"""Standard deviation of the replicas of a group, as a share of their value."""


@dataclass(frozen=True)
class Modes:
    """Replicas of a configuration: the values of its groups, and the share of the runs that falls into each."""

    values: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The true mean."""
        return sum(value * share for value, share in zip(self.values, self.shares, strict=True))

    @property
    def reach(self) -> float:
        """By how much two replicas differ at most."""
        return max(self.values) - min(self.values)

    def drawn(self, random: np.random.Generator, number: int) -> Floats:
        """Replicas with noise."""
        found: Floats = random.choice(self.values, number, p=self.shares) * random.normal(1, NOISE, number)
        return found

    def outcomes(self, number: int) -> Iterator[tuple[Floats, float]]:
        """Each combination of so many replicas, with its probability. They have a small spread that is always the same."""
        for places in combinations_with_replacement(range(len(self.values)), number):
            counts = [places.count(place) for place in range(len(self.values))]
            ways = factorial(number) / prod(map(factorial, counts))
            probability = ways * prod(share**count for share, count in zip(self.shares, counts, strict=True))
            yield np.array([self.values[place] for place in places]) * (1 + NOISE * np.cos(np.arange(number))), probability


Pair = tuple[Modes, Modes]


def pairs(difference: float = MARGIN / 100) -> dict[str, Pair]:
    """Pairs whose means differ by so much of the first one: two and three groups, in one of the configurations or in both."""
    one, found = Modes((1.0,), (1.0,)), {}
    for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9):
        found[f"two, {share:g} far"] = one, Modes((1.0, 1 + difference / share), (1 - share, share))
        # (1 + share x d) / (1 - share x d) = 1 + difference
        away = difference / (2 + difference) / share
        found[f"two in both, {share:g} far"] = (
            Modes((1.0, 1 - away), (1 - share, share)),
            Modes((1.0, 1 + away), (1 - share, share)),
        )
    for shares in ((0.25, 0.5, 0.25), (1 / 3, 1 / 3, 1 / 3), (0.5, 0.25, 0.25), (0.6, 0.1, 0.3), (0.8, 0.1, 0.1)):
        far = difference / (shares[1] / 2 + shares[2])
        found[f"three, {', '.join(f'{share:.2g}' for share in shares)}"] = one, Modes((1.0, 1 + far / 2, 1 + far), shares)
    return found


def chance(pair: Pair, values: tuple[Floats, Floats], *, is_known: bool = True) -> Chance:
    """The chance in the values of a pair. is_known: whether it is given by how much two replicas of each may differ"""
    reaches = (pair[0].reach, pair[1].reach) if is_known else (None, None)
    return Chance(values, None, reaches=reaches)


def exact_share(pair: Pair, number: int, *, is_known: bool = True) -> float:
    """Probability that so many replicas of each are called equivalent."""
    return sum(
        one_probability * other_probability
        for one, one_probability in pair[0].outcomes(number)
        for other, other_probability in pair[1].outcomes(number)
        if is_equivalent(chance(pair, (one, other), is_known=is_known), MARGIN)
    )


def exact_share_of_differences(modes: Modes, number: int) -> float:
    """Probability that two equal configurations are called different (p up to 0.05)."""
    false = 0.0
    for one, one_probability in modes.outcomes(number):
        for other, other_probability in modes.outcomes(number):
            found = chance((modes, modes), (one, other * (1 + NOISE))).relative()
            false += one_probability * other_probability * (found is not None and found.p <= 0.05)
    return false


def drawn_share(number: int, tables: int = TABLES) -> float:
    """Share of drawn pairs, each of `pairs` as often, that are called equivalent."""
    random, cases = np.random.default_rng(number), list(pairs().values())
    drawn = (
        ((one, other), (one.drawn(random, number), other.drawn(random, number))) for one, other in islice(cycle(cases), tables)
    )
    return sum(is_equivalent(chance(pair, values), MARGIN) for pair, values in drawn) / tables


def _print(title: str, rows: Mapping[str, Callable[[int], float]]) -> None:
    cells = [[name, *(f"{100 * share(number):.1f}" for number in REPLICAS)] for name, share in rows.items()]
    say(f"{title}:", "", *markdown(("%", *(f"R={number}" for number in REPLICAS)), cells).splitlines(), "")


def main() -> None:
    """Print the tables."""
    exact = {name: partial(exact_share, pair) for name, pair in pairs().items()}
    _print("Called equivalent where the true difference is the margin", {**exact, f"all, {TABLES} tables drawn": drawn_share})
    equal = {f"{share:g} far": Modes((1.0, 1.05), (1 - share, share)) for share in (0.1, 0.3, 0.5)}
    _print("Called different where both are equal", {name: partial(exact_share_of_differences, one) for name, one in equal.items()})
    near = {f"{100 * apart:g} % apart": Modes((1.0, 1 + apart), (0.5, 0.5)) for apart in (0.01, 0.025, 0.05, 0.1)}
    _print("Called equivalent where both are equal", {name: partial(exact_share, (one, one)) for name, one in near.items()})


if __name__ == "__main__":
    main()
