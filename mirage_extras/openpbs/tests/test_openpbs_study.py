"""The study of waiting indices with OpenPBS."""

from __future__ import annotations

from decimal import Decimal

import pytest

from mirage.experiment.prepare import Prepared, source
from mirage.knobs import resolve as knobs
from mirage.knobs.knobs import Knobs
from mirage.records.run_clock import EVENT
from mirage_extras.openpbs.source import OpenPbsSource
from studies import comparisons


def values_of(own: dict[str, str]) -> Knobs:
    return knobs.with_texts(knobs.resolve({}), own)


def test_with_openpbs_its_fifo_is_the_baseline_and_the_small_size_ends_within_15_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RM", raising=False)
    archive = OpenPbsSource("/x/openpbs.tar.gz", "23.06.06", "0" * 64)
    chosen = comparisons._knobs("study-scms", values_of({}).with_values({"OPENPBS_SOURCE": archive}))
    assert (chosen.scheduler.rm, chosen.campaign.configs) == ("openpbs slurm", "pbs-fifo pbs-easy backfill fifo")
    one = chosen.with_values({"RM": "slurm", "CONFIG": "fifo"}).at_speed(EVENT)
    prepared = Prepared.make(one, source(chosen.workload, chosen.nodes.machine).trace, Decimal(100))
    runs = 4 * (chosen.campaign.replicas or 1)
    assert (estimate := prepared.real_estimate()) is not None and runs * estimate < 900
    full = comparisons._knobs("study-scms", values_of({"FULL": "yes"}).with_values({"OPENPBS_SOURCE": archive}))
    assert (full.scheduler.rm, full.workload.jobs) == ("openpbs slurm", 32567)
