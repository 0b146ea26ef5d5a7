"""The course of a search: rounds of trials until the grid is used up, nothing matters, or no time is left.

What is tried follows from the trials before only, so a search that goes on after an interruption tries the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mirage.tuning.conclusions import Response, Trial
from mirage.tuning.sampler import next_points
from mirage.tuning.surrogate import Point
from mirage.tuning.told import startup

Numbered = tuple[int, Point]
"""Number of a trial, from 1 on, and its point."""
Runs = Callable[[Sequence[Numbered], bool], Mapping[int, Trial]]
"""Runs trials of all jobs or, if it is told so, of the first part of them, and returns them by number."""
FLAT, ALL, TIME, NO_BASE = "flat", "all", "time", "base"
"""Why a search ends: no setting matters, every point was tried, BUDGET, the base has no figure."""
SURELY_FLAT = 1.0
"""Per cent of the base's figure: where no figure is farther from it, the search ends before its time."""


def explore(
    asked: Response, batch: int, seed: int, run: Runs, has_time: Callable[[Response, int], bool], margin: float, has_parts: bool
) -> tuple[Response, str]:
    """Run trials, and return them with why the search ended.

    asked: the question, without trials. batch: trials of a round. has_time: whether a round of so many trials may begin after
    these. margin: as for `Response.is_flat`. has_parts: whether it saves time to run the first part of the jobs only
    """
    response = asked
    while True:
        if response.trials and response.trials[0].figure is None:
            return response, NO_BASE
        enough = startup(response.axes) + len(response.axes)
        if len(response.whole) >= enough and response.is_flat(min(margin, SURELY_FLAT)):
            return response, FLAT
        points = next_points(response.axes, response.told(), batch, seed, response.base)
        if not points:
            return response, ALL
        if not has_time(response, len(points)):
            return response, TIME
        first = len(response.trials) + 1
        numbered = [(number, point) for number, point in enumerate(points, first)]
        response = replace(response, trials=[*response.trials, *_round(response, numbered, run, has_parts)])


def _round(response: Response, numbered: Sequence[Numbered], run: Runs, has_parts: bool) -> list[Trial]:
    """The trials of a round."""
    if not (has_parts and response.early_decides):
        return [*run(numbered, False).values()]
    parts = run(numbered, True)
    going_on = [(number, one.point) for number, one in parts.items() if one.early is None or response.goes_on(one.early)]
    whole = run(going_on, False) if going_on else {}
    ended = {number: replace(one, is_early=True) for number, one in parts.items() if number not in whole}
    return [whole.get(number) or ended[number] for number, _ in numbered]
