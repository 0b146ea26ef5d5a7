"""What the trials of a search tell: the best one, the front, how much each setting matters, whether any does, and whether the first
part of the jobs ranks trials as all jobs do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirage.tuning.surrogate import Axis, Point, Surrogate
from mirage.tuning.told import Told, startup

RANKS_FROM = 0.7
"""Rank correlation between the figures of the first part of the jobs and of all of them from which on the part decides which trials
go on."""
KEEPS = 0.5
"""Share of the trials so far that a new one has to be among, by its first part, to go on."""
_EQUAL = 1e-9  # relative


@dataclass(frozen=True)
class Trial:
    """A trial, in the metric's own unit.

    figure: of all jobs; None: it did not get so far, or its run is not valid
    early: of the first part of the jobs; None: not known
    is_early: whether only the first part was run, and the trial ended there
    second: the other metric of the front
    breaks: limits that its figure is beyond, as in LIMITS
    """

    number: int
    point: Point
    figure: float | None
    early: float | None = None
    is_early: bool = False
    second: float | None = None
    breaks: Sequence[str] = ()

    @property
    def may_win(self) -> bool:
        return self.figure is not None and not self.breaks


@dataclass(frozen=True)
class Response:
    """The trials of a search, the first of which is the base, and the question.

    lower_is_better: of the figure. second_lower: of the other metric of the front
    """

    axes: Sequence[Axis]
    trials: Sequence[Trial]
    lower_is_better: bool
    second_lower: bool
    base: Point

    def cost(self, figure: float) -> float:
        """The figure as one that is to be small."""
        return figure if self.lower_is_better else -figure

    @property
    def whole(self) -> list[Trial]:
        """The trials of all jobs."""
        return [one for one in self.trials if one.figure is not None]

    def best(self) -> Trial | None:
        """The best trial that keeps the limits; of equal ones that in which fewest settings differ from the base."""
        chosen = [one for one in self.trials if one.may_win]
        if not chosen:
            return None
        least = min(self.cost(one.figure) for one in chosen if one.figure is not None)
        equal = [one for one in chosen if one.figure is not None and self.cost(one.figure) <= least + _EQUAL * abs(least)]
        return min(equal, key=lambda one: (sum(map(int, np.not_equal(one.point, self.base))), one.number))

    def front(self) -> list[Trial]:
        """The trials that keep the limits and to which no other is better in one metric without being worse in the other."""
        known = [one for one in self.trials if one.may_win and one.second is not None]
        costs = {one.number: self._costs(one) for one in known}
        found: list[Trial] = []
        for one in sorted(known, key=lambda trial: costs[trial.number]):
            if not found or costs[one.number][1] < costs[found[-1].number][1]:
                found.append(one)
        return found

    def _costs(self, one: Trial) -> tuple[float, float]:
        figure, second = one.figure or 0.0, one.second or 0.0
        return self.cost(figure), second if self.second_lower else -second

    @property
    def _of_base(self) -> float | None:
        """The base's figure; None where it is not known."""
        return next((one.figure for one in self.whole if one.point == self.base), None)

    def is_flat(self, margin: float) -> bool:
        """Whether all figures are within `margin` per cent of the base's, so that no setting matters."""
        base = self._of_base
        if base is None or len(self.whole) < startup(self.axes):
            return False
        farthest = max(abs((one.figure or 0.0) - base) for one in self.whole)
        return farthest <= max(margin / 100 * abs(base), _EQUAL)

    def range_percent(self) -> tuple[float, float] | None:
        """The lowest and the highest figure in per cent of the base's; None where that is 0 or not known."""
        base = self._of_base
        if not base:
            return None
        figures = [one.figure for one in self.whole if one.figure is not None]
        return 100 * (min(figures) / base - 1), 100 * (max(figures) / base - 1)

    def effects(self) -> list[Effect]:
        """The effect of each setting alone; none from fewer trials than it takes to spread them."""
        if len(self.whole) < startup(self.axes) or len({one.figure for one in self.whole}) < 2:
            return []
        model = Surrogate(self.axes, [one.point for one in self.whole], [one.figure or 0.0 for one in self.whole])
        moved = model.effects()
        variances = np.array([float(np.var(one)) for one in moved])
        total = float(variances.sum())
        return [
            Effect(float(variance / total) if total else 0.0, [float(value) for value in one])
            for variance, one in zip(variances, moved, strict=True)
        ]

    # ---- the first part of the jobs ----

    def rank_correlation(self) -> float | None:
        """Spearman's, between the figures of the first part of the jobs and of all; None from fewer trials than the first ones, or
        where one of them does not vary."""
        pairs = [(one.early, one.figure) for one in self.whole if one.early is not None]
        if len(pairs) < startup(self.axes):
            return None
        from scipy.stats import rankdata

        early, figure = (rankdata(np.round(np.array(values, float), 9)) for values in zip(*pairs, strict=True))
        if early.std() == 0 or figure.std() == 0:
            return None
        return float(np.corrcoef(early, figure)[0, 1])

    @property
    def early_decides(self) -> bool:
        """Whether the first part of the jobs decides which trials go on."""
        correlation = self.rank_correlation()
        return correlation is not None and correlation >= RANKS_FROM

    def goes_on(self, early: float) -> bool:
        """Whether a trial with this figure of the first part of the jobs goes on to all jobs."""
        others = [self.cost(one.early) for one in self.trials if one.early is not None]
        return self.cost(early) <= float(np.quantile(others, KEEPS)) if others else True

    def misranked(self) -> tuple[int, int]:
        """Pairs of trials of all jobs whose first part ranks them the other way round, and all pairs that differ."""
        pairs = [(self.cost(one.early), self.cost(one.figure or 0.0)) for one in self.whole if one.early is not None]
        wrong = differ = 0
        for place, (early, figure) in enumerate(pairs):
            for other_early, other in pairs[:place]:
                differ += figure != other
                wrong += (early - other_early) * (figure - other) < 0
        return wrong, differ

    def told(self) -> list[Told]:
        """The trials as the sampler knows them: what is to be small. A trial that is beyond a limit counts as the worst one."""
        worst = max((self.cost(one.figure) for one in self.whole if one.figure is not None), default=0.0)
        return [self._told(one, worst) for one in self.trials]

    def _told(self, one: Trial, worst: float) -> Told:
        if one.figure is not None:
            return Told(one.point, worst if one.breaks else self.cost(one.figure))
        if one.is_early and one.early is not None:
            return Told(one.point, self._estimate(one.early), is_whole=False)
        return Told(one.point, None)

    def _estimate(self, early: float) -> float:
        """What the figure of all jobs would be, by the line through the trials that have both."""
        pairs = np.array([(one.early, self.cost(one.figure or 0.0)) for one in self.whole if one.early is not None])
        if len(pairs) < 2 or np.ptp(pairs[:, 0]) == 0:
            return float(pairs[:, 1].max()) if len(pairs) else early
        slope, start = np.polyfit(pairs[:, 0], pairs[:, 1], 1)
        return float(slope * early + start)


@dataclass(frozen=True)
class Effect:
    """share: of the variance that the settings make together. by_value: by how much each value moves the figure."""

    share: float
    by_value: Sequence[float]
