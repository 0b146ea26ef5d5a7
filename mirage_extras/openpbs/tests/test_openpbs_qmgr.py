"""What qmgr is told, from answers that a real server gave."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.openpbs import qmgr
from slurm_mirage.extras.openpbs.node_classes import Nodes

NODES = [Nodes("n", 1, 2, 4)]
# `print server`, `print sched` and `print node @default`, shortened.
ANSWER = """#
# Create and define queue batch
#
create queue batch
set queue batch queue_type = Execution
set queue batch enabled = True
set queue batch started = True
#
# Set server attributes.
#
set server scheduling = True
set server operators = slurm-x@*
set server operators += other@*
set server default_queue = batch
set server mail_from = adm
#
# Create and define scheduler default
#
create sched default
set sched preempt_prio = "express_queue, normal_jobs"
set sched log_events = 767
#
# Create and define node n1
#
create node n1 Port=2002
set node n1 state = free
set node n1 resources_available.ncpus = 4
"""


def told(answer: str = "", **want: Any) -> list[str]:
    """The lines for qmgr after an answer."""
    state = qmgr.wanted(want.get("nodes", NODES), want.get("server", {}), want.get("partitions", []), want.get("speed", 1))
    return list(qmgr.commands(qmgr.printed(answer), state))


def test_an_answer_is_read() -> None:
    state = qmgr.printed(ANSWER)
    assert state.queues == {"batch": {"queue_type": "Execution", "enabled": "True", "started": "True"}}
    assert state.server["operators"] == "slurm-x@*,other@*"
    assert state.scheduler == {"preempt_prio": "express_queue, normal_jobs", "log_events": "767"}
    assert state.nodes == {"n1": {"state": "free", "resources_available.ncpus": "4"}}


def test_a_new_server_is_told_everything() -> None:
    lines = told(server={"backfill_depth": 0})
    assert lines[0] == "create queue batch queue_type=Execution"
    assert "set server backfill_depth = 0" in lines
    assert "set server default_queue = batch" in lines
    assert lines[-2:] == [f"create node n{i} Mom=n{i},Port={2000 + 2 * i},resources_available.ncpus=4" for i in (1, 2)]


def test_only_what_differs_is_told() -> None:
    """After its own answer a server is told nothing."""
    state = qmgr.wanted(NODES, {"backfill_depth": 1}, [], 20)
    answer = "".join(f"set server {key} = {value}\n" for key, value in state.server.items())
    answer += "".join(f"set sched {key} = {value}\n" for key, value in state.scheduler.items())
    for name, attributes in state.queues.items():
        answer += f"create queue {name}\n" + "".join(f"set queue {name} {key} = {value}\n" for key, value in attributes.items())
    answer += "".join(f"create node {name}\nset node {name} resources_available.ncpus = 4\n" for name in state.nodes)
    assert told(answer, server={"backfill_depth": 1}, speed=20) == []
    assert told(answer, server={"backfill_depth": 7}, speed=20) == ["set server backfill_depth = 7"]


def test_nodes_that_are_not_wanted_are_deleted_and_others_changed() -> None:
    lines = told(ANSWER, nodes=[Nodes("n", 1, 1, 8)])
    assert [line for line in lines if " node " in line] == ["set node n1 resources_available.ncpus = 8"]
    assert "delete node n1" in told(ANSWER, nodes=[Nodes("m", 1, 1, 8)])


def test_a_queue_is_deleted_after_the_server_has_another_default() -> None:
    lines = told(ANSWER, partitions=[{"name": "wide"}, {"name": "short", "Default": True, "resources_max.walltime": 3600}])
    assert lines.index("set server default_queue = short") < lines.index("delete queue batch")
    assert lines.index("create queue short queue_type=Execution") < lines.index("set server default_queue = short")
    assert "set queue short resources_max.walltime = 01:00:00" in lines


@pytest.mark.parametrize("value", ["two\nlines", "", None, {"a": 1}])
def test_an_attribute_is_one_line(value: Any) -> None:
    with pytest.raises(WrongUse, match="server: comment: is not an attribute with a value of one line"):
        told(server={"comment": value})


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), ("a b", '"a b"'), ("a,b", '"a,b"'), ("a;b", '"a;b"'), ('a "b"', "'a \"b\"'"), ("#", '"#"')]
)
def test_values_are_in_quotes_where_qmgr_needs_them(value: str, text: str) -> None:
    assert f"set server comment = {text}" in told(server={"comment": value})
