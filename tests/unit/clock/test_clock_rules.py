"""Which clock a cluster can have, and the module that says so before anything is built."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from modules import Caller

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock import clock_rules

EVENT = clock_rules.EVENT


@pytest.mark.parametrize(
    ("speed", "settings"),
    [
        (1.0, {}),
        (0.5, {"saves": "memory", "several_hosts": True}),
        (Decimal(20), {"seen_by_bpf": "its daemons"}),
        (EVENT, {"seen_by_bpf": "its daemons"}),
        (EVENT, {"charges": True, "saves": "memory"}),
        ("auto", {"several_hosts": True, "seen_by_bpf": "its daemons"}),
        ("auto", {"charges": True}),
    ],
)
def test_clocks_that_a_cluster_can_have(speed: float | Decimal | str, settings: dict[str, Any]) -> None:
    clock_rules.check(speed, **settings)


@pytest.mark.parametrize(
    ("speed", "settings", "message"),
    [
        (0.0, {}, "^speed=0: must be a number above 0, or event"),
        (float("nan"), {}, "^speed=nan: must be a number above 0, or event"),
        (
            Decimal("33.333333333"),
            {"charges": True},
            "^charge=yes: is for SPEED=event; SPEED=33.333333333 charges all that the host",
        ),
        (1.0, {"saves": "memory"}, "^saves=memory: is for a virtual clock"),
        (20.0, {"saves": "memory", "needs_no_saves": "a reason"}, "^saves=memory: is for Slurm; a reason$"),
        (
            EVENT,
            {"seen_by_bpf": "its daemons", "charges": True},
            "^charge=yes: is for Slurm; the clock does not charge the time of its",
        ),
        (EVENT, {"several_hosts": True}, "^speed=event: the event clock is for one host"),
        ("auto", {"several_hosts": True, "charges": True}, "^speed=auto: the event clock is for one host"),
    ],
)
def test_clocks_that_are_refused(speed: float | Decimal | str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongUse, match=message):
        clock_rules.check(speed, **settings)


def test_the_module_refuses_a_clock_in_one_line(call: Caller) -> None:
    assert call("cluster_clock_info", speed=20, saves="memory", several_hosts=True)["changed"] is False
    assert call("cluster_clock_info", event_clock=True, charge=True)["changed"] is False
    message = call("cluster_clock_info", event_clock=True, several_hosts=True)["msg"]
    assert message.startswith("wrong use: SPEED=event: the event clock is for one host") and "\n" not in message
    assert call("cluster_clock_info", event_clock=True, speed=20)["msg"].startswith("wrong use: SPEED=20: the event clock has none")
    assert call("cluster_clock_info", speed=1, charge=True)["msg"].startswith("wrong use: CHARGE=yes: is for SPEED=event; SPEED=1 ")
