"""EVENTS: reading, checks, expansion, and what the replay gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import line_values
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mirage.cluster_events import checks, planned, user_file
from mirage.cluster_events.checks import World
from mirage.cluster_events.planned import PlannedEvent
from mirage.cluster_events.user_file import Line
from mirage.text import durations
from slurm_mirage.base.errors import WrongUse

WORLD = World([f"n{number}" for number in range(1, 9)], {"batch", "long"}, {1, 2, 17}, last=10 * 86400)


def events(tmp_path: Path, text: str, world: World = WORLD) -> list[PlannedEvent]:
    path = tmp_path / "events.csv"
    path.write_text(text)
    return checks.expanded(user_file.read(str(path)).lines, world)


FILE = """\
# a week
instant,action,target,argument
3600, drain, "n[1-2]", disk  is full
2h,resume,n01-2 ,
1:00:00,fail,n[3-4],20min

0,reserve,week,start=1-00:00:00 duration=6h nodes=ALL flags=MAINT
90000,hold,17,
1d2h,release-job,17,
2d,set,partition batch,MaxTime=2-00:00:00 State=DOWN
2d,run,,"echo a,b"
2d,kill-controller,,
"""


def test_one_reservation_may_begin_when_another_ends(tmp_path: Path) -> None:
    """Of the same name, and of the same nodes."""
    lines = ["0,reserve,a,nodes=n1 duration=1h", "3600,reserve,a,nodes=n1 duration=1h", "0,reserve,b,nodes=n1 start=2h duration=1h"]
    assert len(events(tmp_path, "instant,action,target,argument\n" + "\n".join(lines) + "\n")) == 3
    early = lines[1].replace("3600", "3599")
    with pytest.raises(WrongUse, match="has not ended then"):
        events(tmp_path, "instant,action,target,argument\n" + "\n".join([lines[0], early]) + "\n")
    with pytest.raises(WrongUse, match=r"n1 are reserved by b of events\.csv:4 at the same time"):
        events(tmp_path, "instant,action,target,argument\n" + "\n".join([*lines[:2], lines[2].replace("2h", "7199")]) + "\n")


def test_a_file(tmp_path: Path) -> None:
    found = events(tmp_path, FILE.replace("n01-2 ", '"n0[1-2]"'))
    assert [(event.instant, event.action, event.target, event.argument) for event in found] == [
        (0, "reserve", "week", "StartTime=86400 Duration=21600 Nodes=ALL Flags=MAINT Users=root"),
        (3600, "drain", "n[1-2]", "disk is full"),
        (3600, "fail", "n[3-4]", ""),
        (4800, "return", "n[3-4]", ""),
        (7200, "resume", "n[1-2]", ""),
        (90000, "hold", "17", ""),
        (93600, "release-job", "17", ""),
        (172800, "set", "partition batch", "MaxTime=2-00:00:00 State=DOWN"),
        (172800, "run", "", "echo a,b"),
        (172800, "kill-controller", "", ""),
    ]
    assert found[1].source == "events.csv:3" and found[3].source == "events.csv:5"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,drain,n9,", "events.csv:1: target: there is no node n9; the nodes are n[1-8]"),
        ("1,drain,n[1-,", "is not a host list"),
        ("1,drain,,", "no node is given"),
        ("1,explode,n1,", "action 'explode': it may be one of down, drain"),
        ("1,drian,n1,", "did you mean drain?"),
        ("-5,drain,n1,", "is before the start of the run"),
        ("soon,drain,n1,", "instant 'soon': it may be seconds, or such as 90min"),
        ("1-25:61:61,drain,n1,", "instant '1-25:61:61': it may be seconds, or such as 90min"),
        ("1,reserve,a,nodes=n1 duration=2:60:00", "'2:60:00' is none"),
        ("11d,drain,n1,", "is after the end of the run"),
        ("1,fail,n1,", "fail needs as its argument for how long"),
        ("1,not-responding,n1,-3", "needs as its argument for how long"),
        ("1,fail,n1,0s", "'0s' is none"),
        ("1,fail,n1,1h\n60,fail,n[1-2],1h", "events.csv:2: n1 is already out of service by fail at 60"),
        ("1,resume,n1,", "n1 is not out of service by down or drain at 1"),
        ("1,drain,n1,\n2,resume,n[1-2],", "n2 is not out of service"),
        ("1,hold,5,", "there is no job '5' in the run"),
        ("1,cancel,all,", "there is no job 'all' in the run"),
        ("1,reserve,a,duration=1h", "a reservation needs its nodes"),
        ("1,reserve,a,duration=1h nodes=n77", "nodes: there is no node n77"),
        ("1,reserve,a b,duration=1h nodes=n1", "the name of a reservation"),
        ("1,reserve,a,nodes=n1", "needs its duration or its end"),
        ("1,reserve,a,nodes=n1 duration=30s", "at least a minute"),
        ("1,reserve,a,nodes=n1 duration=1h colour=red", "'colour=red' is not a word of a reservation"),
        ("1,reserve,a,nodes=n1 duration=1h partition=fast", "there is no partition fast; it may be one of batch, long"),
        ("100,reserve,a,start=50 nodes=n1 duration=1h", "starts at 50, before the event itself"),
        ("1,reserve,a,nodes=n1 duration=1h\n2,reserve,a,nodes=n2 duration=1h", "the reservation a of events.csv:1 has not ended"),
        ("1,reserve,a,nodes=n[1-4] duration=1h\n2,reserve,b,nodes=n[4-6] duration=1h", "n4 are reserved by a of events.csv:1"),
        ("1,release,a,", "there is no reservation 'a' then"),
        ("1,reserve,a,nodes=n1 duration=1h\n2,release,a,\n3,release,a,", "events.csv:3: there is no reservation 'a' then"),
        ("1,set,batch,MaxTime=1", "it may be partition, node, job"),
        ("1,set,partition fast,MaxTime=1", "there is no partition fast"),
        ("1,set,partition batch,", "set needs words NAME=VALUE"),
        ("1,run,,", "run needs a command"),
        ("1,run,n1,date", "run has no target"),
        ("1,kill-controller,,10min", "kill-controller has no argument"),
        ("1,hold,1,now", "hold has no argument"),
        ("1,drain,n1,\n2,resume,n1,2h", "events.csv:2: resume has no argument"),
        ("1,configure,fifo,", "configure fifo: this cluster keeps its configuration"),
        ("1,configure,,", "configure needs as its target the name of a configuration"),
        ("1,configure,../fifo,", "the name of a configuration, such as fifo, and '../fifo' is none"),
        ("1,configure,fifo,now", "argument 'now': it may be reconfigure or restart, or empty"),
        ("1,failover,,1h", "failover needs a second slurmctld, and this cluster has one"),
        ("1,take-back,,", "take-back needs a second slurmctld"),
        ("1,return,n1,", "n1 is not out of service by a line with fail that has no duration"),
        ("1,fail,n1,1h\n60,return,n1,", "n1 is not out of service by a line with fail that has no duration"),
        ("1,fail,n1,\n60,responding,n1,", "n1 is not out of service by a line with not-responding"),
        ("1,fail,n1,\n60,return,n1,2h", "return has no argument"),
        ("1,fail,n1,\n60,not-responding,n1,1h", "n1 is already out of service by fail at 60"),
        ("1,fail,n[1-2],\n60,return,n1,", "events.csv:1: fail needs as its argument for how long"),
        ("1,reserve,a,count=0 duration=1h", "count=0: it may be a whole number from 1 to 8"),
        ("1,reserve,a,count=9 duration=1h", "count=9: it may be a whole number from 1 to 8"),
        ("1,reserve,a,count=2 nodes=n1 duration=1h", "nodes=LIST or count=NUMBER, not both"),
        ("1,reserve,a,nodes=n1 duration=1h users=a Users=b", "'Users=b': Users is given twice"),
        ("1,reserve,a,nodes=n1 duration=1h flags=FOO", "flag 'FOO': it may be some of MAINT, OVERLAP"),
        ("1,reserve,a,nodes=n1 duration=1h flags=maint,daily", "flag DAILY: a reservation of a run has one begin"),
        ("1,reserve,a,nodes=n1 duration=1h flags=MAINT=3", "flag 'MAINT=3'"),
        ("1,reserve,a,nodes=n1 duration=1h flags=REPLACE", "with count=NUMBER only"),
        ("1,reserve,a,nodes=n1 duration=1h flags=PART_NODES", "partition=NAME and nodes=ALL only"),
        ("1,set,node n1,State=DRAIN", "Slurm wants a reason: give 'State=DRAIN Reason=WORD'"),
        ("instant,target\n1,n1", "the heading needs instant and action"),
    ],
)
def test_a_wrong_line_is_one_message_with_file_and_line(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(WrongUse) as caught:
        events(tmp_path, line + "\n")
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("events: events.csv:")


def test_configurations_take_the_place_of_each_other(tmp_path: Path) -> None:
    asked = []

    def way(before: str, after: str) -> str:
        asked.append((before, after))
        return "restart" if "fifo" in (before, after) else "reconfigure"

    world = World(WORLD.nodes, WORLD.partitions, WORLD.jobs, WORLD.last, configuration="easy", way=way)
    text = "1,configure,tuned,\n2,configure,fifo,restart\n3,configure,easy,\n4,configure,tuned,restart\n"
    assert [(event.target, event.argument) for event in events(tmp_path, text, world)] == [
        ("tuned", "reconfigure"), ("fifo", "restart"), ("easy", "restart"), ("tuned", "restart"),
    ]  # fmt: skip
    assert asked == [("easy", "tuned"), ("tuned", "fifo"), ("fifo", "easy"), ("easy", "tuned")]
    with pytest.raises(WrongUse, match="easy is the configuration then already"):
        events(tmp_path, "1,configure,easy,\n", world)
    with pytest.raises(WrongUse, match="slurmctld has to be restarted for fifo"):
        events(tmp_path, "1,configure,fifo,reconfigure\n", world)


def test_failures_of_nodes_need_one_host_and_limits_need_accounting(tmp_path: Path) -> None:
    world = World(WORLD.nodes, WORLD.partitions, WORLD.jobs, WORLD.last, hosts=2, has_accounting=False)
    with pytest.raises(WrongUse, match="fail needs a cluster on one host"):
        events(tmp_path, "1,fail,n1,1h\n", world)
    with pytest.raises(WrongUse, match="needs a cluster with accounting"):
        events(tmp_path, "1,set,account a,GrpTRES=cpu=4\n", world)
    world = World(WORLD.nodes, WORLD.partitions, WORLD.jobs, WORLD.last, enforces_limits=False)
    with pytest.raises(WrongUse, match="MaxJobs of user u1 would not be enforced: AccountingStorageEnforce"):
        events(tmp_path, "1,set,user u1,Fairshare=2 MaxJobs=1\n", world)
    assert events(tmp_path, "1,set,user u1,Fairshare=2\n", world)


def test_nodes_of_the_users_own_names(tmp_path: Path) -> None:
    world = World(WORLD.nodes, WORLD.partitions, WORLD.jobs, WORLD.last, renamed={"head": "n8"})
    assert events(tmp_path, '1,drain,"head,n[01-02]",\n', world)[0].target == "n[1-2,8]"


def test_commas_need_no_quotes_in_host_lists_and_arguments(tmp_path: Path) -> None:
    text = "1,drain,n[1,3-4],a, b\n2,reserve,a,nodes=n[1,3] duration=1h flags=MAINT,IGNORE_JOBS\n"
    first, second = events(tmp_path, text)
    assert (first.target, first.argument) == ("n[1,3-4]", "a,b")
    assert second.argument == "StartTime=2 Duration=3600 Nodes=n[1,3] Flags=MAINT,IGNORE_JOBS Users=root"
    with pytest.raises(WrongUse, match="5 fields; it may have lines with"):
        events(tmp_path, "instant,action,argument,target\n1,drain,a,n1,x\n")


def test_reservations_that_may_overlap(tmp_path: Path) -> None:
    text = "1,reserve,a,nodes=n1 duration=1h flags=maint\n2,reserve,b,nodes=n1 duration=1h\n"
    assert [event.target for event in events(tmp_path, text)] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("maintenance", "MAINT"),
        ("Mai,ign", "MAINT,IGNORE_JOBS"),
        ("magnetic,purge_comp=0:30", "MAGNETIC,PURGE_COMP=0:30"),
        ("flex,FLEX", "FLEX"),
        ("no_hold", "NO_HOLD_JOBS_AFTER_END"),
    ],
)
def test_flags_of_reservations_as_slurm_reads_them(tmp_path: Path, words: str, flags: str) -> None:
    (event,) = events(tmp_path, f"1,reserve,a,nodes=n1 duration=1h flags={words}\n")
    assert planned.words_of(event.argument)["Flags"] == flags


def test_flags_that_replace_nodes_are_told_apart(tmp_path: Path) -> None:
    for flag in ("REPLACE", "REPLACE_DOWN"):
        (event,) = events(tmp_path, f"1,reserve,a,count=2 duration=1h flags={flag}\n")
        assert planned.words_of(event.argument)["Flags"] == flag


@pytest.mark.parametrize(
    "text",
    [
        "1,drain,n1,\n2,fail,n1,1s\n9,resume,n1,\n",
        "1,down,n[1-2],\n2,not-responding,n1,1h\n9,resume,n1,\n",
        "1,set,node n1,State=DRAIN Reason=x\n9,resume,n1,\n",
        "1,fail,n1,1h\n9,drain,n1,\n4000,fail,n1,1h\n",
        "1,drain,n1,\n2,drain,n1,another reason\n9,resume,n1,\n",
    ],
)
def test_a_node_may_be_drained_and_fail_at_one_time(tmp_path: Path, text: str) -> None:
    assert len(events(tmp_path, text)) == text.count("\n") + text.count("fail,") + text.count("responding")


def test_a_node_that_is_returned_by_set_is_not_out_of_service(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="n1 is not out of service by down or drain at 3"):
        events(tmp_path, "1,drain,n1,\n2,set,node n1,State=RESUME\n3,resume,n1,\n")


def test_a_failover_on_a_cluster_with_two_controllers(tmp_path: Path) -> None:
    two = replace(WORLD, controllers=2)
    found = events(tmp_path, "60,failover,,10min\n660,failover,,\n2000,take-back,,\n", two)
    assert [(event.instant, event.action, event.argument) for event in found] == [
        (60, "failover", ""), (660, "take-back", ""), (660, "failover", ""), (2000, "take-back", ""),
    ]  # fmt: skip
    for text, words in (
        ("1,failover,,1h\n2,failover,,\n", "the second slurmctld is in charge then already"),
        ("1,failover,,1h\n2,take-back,,\n", "after a failover without a duration"),
        ("1,take-back,,\n", "after a failover without a duration"),
    ):
        with pytest.raises(WrongUse, match=words):
            events(tmp_path, text, two)


def test_the_replay_gets_virtual_seconds(tmp_path: Path) -> None:
    found = events(tmp_path, "200,reserve,a,start=400 duration=1h nodes=n1\n300,fail,n2,100\n")
    played = planned.for_replay(found, 50)
    assert [(event.number, event.at) for event in played] == [(0, 100), (1, 150), (2, 200)]
    assert played[0].argument == "StartTime=200 Duration=1800 Nodes=n1 Users=root"


_NODE = st.sampled_from(["n1", "n[2-3]", "n[4-8]", "ALL"])
_LINES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["drain", "down"]), _NODE, st.sampled_from(["", "a", 'said "no", twice'])),
        st.tuples(st.sampled_from(["fail", "not-responding"]), _NODE, st.sampled_from(["10", "1h", "20d"])),
        st.tuples(st.just("hold"), st.sampled_from(["1", "17"]), st.just("")),
        st.tuples(st.just("reserve"), st.sampled_from(["a", "b"]), st.just("start=9d end=10d count=3 flags=maint")),
        st.tuples(st.just("run"), st.just(""), st.sampled_from(["echo 1,2", "sed 's/\"//' a"])),
        st.tuples(st.just("set"), st.just("partition batch"), st.just("State=DOWN MaxTime=1:00")),
    ),
    max_size=8,
)


@given(_LINES, st.integers(1, 90000), st.sampled_from(["FAILURES", ""]))
def test_the_file_of_a_run_can_be_given_again(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, str, str]], step: int, source: str
) -> None:
    """Also with generated failures, which keep their source."""
    path = tmp_path_factory.mktemp("events") / "events.csv"
    given = [Line(f"a.csv:{number}", number * step, *line, source) for number, line in enumerate(lines)]
    try:
        found = checks.expanded(given, WORLD)
    except WrongUse:
        assume(False)
    path.write_text(planned.as_csv(found))
    again = checks.expanded(user_file.read(str(path)).lines, WORLD)
    assert [(e.instant, e.action, e.target, e.argument) for e in again] == [
        (e.instant, e.action, e.target, e.argument) for e in found
    ]
    assert [e.source for e in again] == [source or f"events.csv:{number}" for number in range(2, len(found) + 2)]


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90", 90),
        ("45s", 45),
        ("90min", 5400),
        ("6h", 21600),
        ("1d12h", 129600),
        ("2-06:00:00", 194400),
        ("08:30", 30600),
        ("1.5h", 5400),
        ("36:00:00", 129600),
        ("1-23:59:59", 172799),
    ],
)
def test_durations(text: str, length: float) -> None:
    assert durations.seconds(text) == length


@pytest.mark.parametrize("text", ["1-25:61:61", "1-24:00", "0:60", "0:00:60", "1-1:60", "1-0:0:99"])
def test_what_no_clock_shows_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: hours go up to 23 after days, minutes and seconds up to 59"):
        durations.seconds(text)


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        assert durations.seconds(text) >= 0
    except ValueError as error:
        assert "duration" in str(error)


@given(st.lists(st.text(max_size=20), max_size=4), st.integers(0, 3))
def test_any_line_is_read_or_one_message(tmp_path_factory: pytest.TempPathFactory, fields: list[str], lines: int) -> None:
    path = tmp_path_factory.mktemp("events") / "events.csv"
    path.write_bytes(("\n" * lines + ",".join(fields) + "\n").encode("utf-8", "surrogatepass"))
    try:
        checks.expanded(user_file.read(str(path)).lines, WORLD)
    except WrongUse as error:
        assert "\n" not in str(error)


@example("[")
@given(line_values.values)
def test_a_command_is_read_again_letter_by_letter_or_refused(tmp_path_factory: pytest.TempPathFactory, command: str) -> None:
    path, command = tmp_path_factory.mktemp("events") / "events.csv", command.strip()
    try:
        found = checks.expanded([Line("a.csv:1", 1.0, "run", "", command), Line("a.csv:2", 2.0, "drain", "n1", "x")], WORLD)
    except WrongUse as error:
        assert str(error).startswith(
            ("EVENTS: a.csv:1: argument has ", "events: a.csv:1: argument has ", "events: a.csv:1: run needs")
        )
        return
    path.write_text(planned.as_csv(found), newline="")
    again = checks.expanded(user_file.read(str(path)).lines, WORLD)
    assert [(e.action, e.argument) for e in again] == [("run", command), ("drain", "x")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,run,,date\u2028date", "events.csv:1: field 4 has the line separator U+2028"),
        ('1,run,,"date\n# comment\ndate"', "events.csv:3: field 4 has the control character U+000A"),
        ("1,drain,n1,a\x1b[2J", "events.csv:1: field 4 has the control character U+001B"),
        ("1,set,account a'b,MaxJobs=1", 'account: "a\'b" is no name that sacctmgr keeps'),
        ("1,set,user A,MaxJobs=1", "user: 'A' is no name that sacctmgr keeps"),
    ],
)
def test_what_a_command_of_the_manager_would_not_get_is_refused(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(WrongUse) as refused:
        events(tmp_path, line)
    assert words in str(refused.value)


@pytest.mark.parametrize("value", ["a b", "a AllowGroups=b", "a\tb", ""])
def test_a_word_of_an_argument_begins_no_other(value: str) -> None:
    with pytest.raises(WrongUse, match=r"^AllowAccounts: .* is not one word$"):
        planned.as_argument({"AllowAccounts": value})
