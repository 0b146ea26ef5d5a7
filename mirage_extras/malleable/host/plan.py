"""The column `malleable` of a plan: the words of a malleable job; empty for a job that keeps its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.errors import WrongUse
from .words import Malleable

if TYPE_CHECKING:
    from ...jobs.plan import PlanRow


def check(row: PlanRow, words: str) -> None:
    """Check that the job has whole nodes from which its words allow other sizes. Raises WrongUse."""
    if row.nodes is None:
        raise WrongUse("a malleable job needs whole nodes")
    Malleable.parse(words).sizes(row.nodes)


COLUMNS = {"malleable": check}
