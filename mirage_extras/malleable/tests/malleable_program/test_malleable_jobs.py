"""Malleable jobs with a scripted broker: work, sizes, costs and signals are exact on the event clock, and add up on the others."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, SIGTSTP

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.malleable.words import Malleable, Speedup
from slurm_mirage.jobs.sigsleep_log import MalleableRecord, SizeKind
from tests.sigsleep.conftest import Job, wait_until
from tests.sigsleep.event_clock import NEVER, SECOND, EventClock

from .scripted_broker import CLOSES, SILENT, Broker

Start = Callable[..., Job]
RUNTIME = 1000
PATIENCE = 600  # virtual seconds for which sigsleep waits for an answer
STARTED, EXPANDED, SHRUNK, COST_BEGAN, COST_ENDED = (int(kind) for kind in SizeKind)


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[EventClock]:
    clock = EventClock(tmp_path)
    yield clock
    clock.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path / "broker.socket")
    yield broker
    broker.close()


def environment(**variables: object) -> dict[str, str]:
    usual = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    return {**usual, "SLURM_JOB_ID": "77", **{name: str(value) for name, value in variables.items()}}


class Played:
    """A malleable job of 1000 s at two nodes on an event clock that is at `now` seconds after its start."""

    def __init__(self, start: Start, clock: EventClock, broker: Path, words: str, nodes: int = 2, **variables: object) -> None:
        self.clock, self.begin = clock, clock.now
        popen = {"env": environment(**variables)}
        self.job = start(RUNTIME, clock=clock.file, malleable=words, nodes=nodes, broker=broker, popen=popen)

    def waits_until(self, seconds: float) -> Played:
        """Wait until the job waits for this instant."""
        self.clock.await_deadline(self.begin + round(seconds * SECOND))
        self.job.await_state("S")
        return self

    def passes(self, to: float) -> Played:
        """Let time pass until that second."""
        self.clock.advance(to - (self.clock.now - self.begin) / SECOND)
        return self

    def goes(self, *instants: float) -> Played:
        """Let time pass from each instant for which the job waits to the next."""
        for instant in instants:
            self.waits_until(instant).passes(instant)
        return self

    def ends(self, code: int = 0) -> MalleableRecord:
        assert self.job.end() == (code, "")
        record = self.job.only_record()
        assert record.malleable is not None
        assert record.completed == (code == 0)
        assert (record.start_ns, record.end_ns) == (self.begin, self.clock.now)
        suspended = sum(one.resume_ns - one.suspend_ns for one in record.suspensions)
        malleable = record.malleable
        assert record.executed_ns + malleable.waited_ns + malleable.paid_ns + suspended == self.clock.now - self.begin
        assert self.clock.slots() == []
        return malleable

    def sizes(self, record: MalleableRecord) -> list[tuple[float, int, int]]:
        """(seconds after the start, nodes, kind)."""
        return [((size.instant_ns - self.begin) / SECOND, size.nodes, size.kind) for size in record.sizes]


@pytest.mark.parametrize(("mode", "kind"), [("", "check"), (" async", "icheck")])
def test_it_grows_and_shrinks(start: Start, clock: EventClock, broker: Broker, mode: str, kind: str) -> None:
    """100 s at two nodes, 100 at four, 100 at eight: 700 of 1000 are done. The rest takes 600 s on one node."""
    broker.answers = [b"expanded 4 a,b,c,d\n", b"expanded 8 a,b,c,d,e,f,g,h\n", b"shrink 1 a\n", b"shrunk 1 a\n"]
    played = Played(start, clock, broker.path, f"1:8:2:4 check=100{mode}")
    record = played.goes(100, 200, 300, 400, 500, 600, 700, 800, 900).ends()
    assert played.sizes(record) == [(0, 2, STARTED), (100, 4, EXPANDED), (200, 8, EXPANDED), (300, 1, SHRUNK)]
    assert record.allocations() == [
        (clock.now - (900 - second) * SECOND, nodes) for second, nodes in ((0, 2), (100, 4), (200, 8), (300, 1))
    ]
    assert record.work_ns == RUNTIME * SECOND
    assert (record.checks, record.expansions, record.shrinks, record.unanswered, record.refused) == (8, 2, 1, 0, 0)
    asked = [f"mirage 1 {kind} 77 {size} 1 8 2 4\n" for size in (2, 4, 8, 1, 1, 1, 1, 1)]
    resumed = "mirage 1 resumed 77 0.000000000\n"
    assert broker.all_requests() == [asked[0], resumed, asked[1], resumed, asked[2], "mirage 1 ready 77 1\n", resumed, *asked[3:]]


def test_no_preferred_size_is_zero(start: Start, clock: EventClock, broker: Broker) -> None:
    Played(start, clock, broker.path, "1:8:2:- check=600").goes(600, 1000).ends()
    assert broker.all_requests() == ["mirage 1 check 77 2 1 8 2 0\n"]


def test_a_resize_costs_time_at_the_larger_size(start: Start, clock: EventClock, broker: Broker) -> None:
    """The next point counts execution: 200 s of it are over at 306."""
    broker.answers = [b"expanded 4 a,b,c,d\n", b"shrink 1 a\n", b"shrunk 1 a\n"]
    played = Played(start, clock, broker.path, "1:8:2:- check=200 cost=5.5:0.25")
    played.waits_until(200).passes(200).waits_until(206)
    assert len(broker.requests) == 1
    record = played.goes(206, 406, 412.25, 612.25, 812.25, 1012.25).waits_until(1212.25).passes(1212.25).ends()
    assert played.sizes(record) == [
        *((0, 2, STARTED), (200, 4, EXPANDED), (200, 4, COST_BEGAN), (206, 4, COST_ENDED)),
        *((406, 4, COST_BEGAN), (412.25, 4, COST_ENDED), (412.25, 1, SHRUNK)),
    ]
    assert (record.paid_ns, record.waited_ns) == (12.25 * SECOND, 0)
    assert broker.all_requests()[1:5] == [
        *("mirage 1 resumed 77 6.000000000\n", "mirage 1 check 77 4 1 8 2 0\n"),
        *("mirage 1 ready 77 1\n", "mirage 1 resumed 77 6.250000000\n"),
    ]


def test_waiting_for_the_answer_is_no_execution(start: Start, clock: EventClock, broker: Broker) -> None:
    broker.answers = [SILENT]
    played = Played(start, clock, broker.path, "1:8:2:- check=400")
    played.goes(400).waits_until(400 + PATIENCE).passes(430)
    broker.say(b"expanded 4 a,b,c,d\n")
    record = played.goes(730).ends()
    assert played.sizes(record) == [(0, 2, STARTED), (430, 4, EXPANDED)]
    assert record.waited_ns == 30 * SECOND


@pytest.mark.parametrize(("words", "asks"), [("inhibitor=250", [100, 400, 700]), ("inhibitor=100", [*range(100, 1000, 100)])])
def test_points_soon_after_a_check_are_skipped(
    start: Start, clock: EventClock, broker: Broker, words: str, asks: list[int]
) -> None:
    played = Played(start, clock, broker.path, f"1:8:2:- check=100 {words}")
    asked = []
    for second in range(100, 1000, 100):
        before = len(broker.requests)
        played.goes(second).waits_until(second + 100)
        asked += [second] * (len(broker.requests) - before)
    assert asked == asks
    assert played.goes(1000).ends().checks == len(asks)


def test_a_point_at_the_end_is_none(start: Start, clock: EventClock, broker: Broker) -> None:
    Played(start, clock, broker.path, "1:8:2:- check=1000").goes(1000).ends()
    assert broker.all_requests() == []


def test_points_that_were_missed_are_one(start: Start, clock: EventClock, broker: Broker) -> None:
    played = Played(start, clock, broker.path, "1:8:2:- check=100").waits_until(100).passes(350)
    assert played.goes(400, 500, 600, 700, 800, 900, 1000).ends().checks == 7


@pytest.mark.parametrize("mode", ["", " async"])
@pytest.mark.parametrize("speed", [1, 100])
def test_sizes_on_a_clock_of_constant_speed(start: Start, broker: Broker, tmp_path: Path, speed: int, mode: str) -> None:
    """A fifth of the work at each of two, four and eight nodes, and the rest on one node after a suspension."""
    broker.answers = [b"expanded 4 a,b,c,d\n", b"expanded 8 a,b\n", b"shrink 1 a\n", b"shrunk 1 a\n"]
    line = tmp_path / "clock"
    line.write_text(f"mirage-clock 1 {time.time_ns()} {1_800_000_000 * SECOND} {speed}\n")
    unit = 0.1 * speed
    words = f"1:8:2:- check={unit:g} cost={unit / 10:g}:{unit / 100:g}{mode}"
    job = start(10 * unit, clock=line, malleable=words, nodes=2, broker=broker.path, popen={"env": environment()})
    wait_until(lambda: len(broker.requests) > 7, "a point after the last change of size")
    job.send(SIGTSTP).await_state("T")
    time.sleep(0.1)
    assert job.send(SIGCONT).end() == (0, "")
    record = job.only_record()
    malleable = record.malleable
    assert malleable is not None
    assert [nodes for _, nodes in malleable.allocations()] == [2, 4, 8, 1]
    assert len(record.suspensions) == 1
    instants = [record.start_ns, *(size.instant_ns for size in malleable.sizes), record.end_ns]
    assert instants == sorted(instants)
    suspended = sum(one.resume_ns - one.suspend_ns for one in record.suspensions)
    missing = record.end_ns - record.start_ns - suspended - record.executed_ns - malleable.waited_ns - malleable.paid_ns
    assert abs(missing) < 0.02 * speed * SECOND  # between the last look and the end
    assert malleable.paid_ns >= (0.3 + 0.02 + 0.04 + 0.07) * unit * SECOND
    assert malleable.work_ns >= record.runtime_ns == round(10 * unit * SECOND)


# ---- speed-up ----


@pytest.mark.parametrize(
    "speedup",
    [
        Speedup(),
        Speedup(0.95),
        Speedup(0.0),
        Speedup(0.123456789),
        Speedup(rows=((1, 1.0), (2, 1.7), (8, 3.1))),
        Speedup(rows=((4, 0.5),)),
    ],
    ids=Speedup.text,
)
@pytest.mark.parametrize("to", [1, 4, 6, 64])
def test_work_advances_with_the_speedup(start: Start, clock: EventClock, broker: Broker, speedup: Speedup, to: int) -> None:
    broker.answers = [b"expanded %d a\n" % to] if to > 2 else [b"shrink 1 a\n", b"shrunk 1 a\n"]
    played = Played(start, clock, broker.path, f"1:64:2:- check=500 speedup={speedup.text()}").goes(500)
    left = 500 * speedup.of(2) / speedup.of(to)
    if left > 500:
        played.goes(1000)
    deadline = 0

    def is_near() -> bool:
        nonlocal deadline
        deadline = next((slot.deadline for slot in clock.slots()), 0)
        return abs(deadline - played.begin - (500 + left) * SECOND) <= 2000  # the program computes in billionths

    wait_until(is_near, "the end")
    record = played.goes((deadline - played.begin) / SECOND).ends()
    assert 0 <= record.work_ns - RUNTIME * SECOND <= 64


# ---- the broker ----


@pytest.mark.parametrize(
    ("answers", "unanswered", "refused"),
    [
        ([b"none 2\n"], 0, 0),
        ([b"aborted 2 the resizer waited for too long\n"], 0, 1),
        ([b"refused it is another job\n"], 0, 1),
        ([b"refused\n"], 0, 1),
        ([b"shrink 1 a\n", b"none 2 it is gone\n"], 0, 1),
        ([b"shrink 1 a\n", CLOSES], 1, 0),
        ([b"shrink 1 a\n", b"shrink 1 a\n"], 0, 1),
        ([CLOSES], 1, 0),
        ([b"expan"], 1, 0),
        ([b"expanded 4"], 1, 0),
        ([b"expanded 4 a,b,c,d\nexpanded 8 a\n"], 1, 0),
        ([b"expanded 2 a,b\n"], 0, 0),
        ([b"expanded 0 \n"], 1, 0),
        ([b"none 0\n"], 1, 0),
        ([b"expanded 9999999999999999999999 a\n"], 1, 0),
        ([b"expanded -4 a\n"], 1, 0),
        ([b"expanded four a\n"], 1, 0),
        ([b"expanded\n"], 1, 0),
        ([b"shrink 2 a,b\n"], 1, 0),
        ([b"shrink 0 \n"], 1, 0),
        ([b"shrink 4 a\n"], 1, 0),
        ([b"refusedly\n"], 1, 0),
        ([b"\n"], 1, 0),
        ([b"\x00\xff\xfe\n"], 1, 0),
        ([b"x" * 3_000_000], 1, 0),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_without_a_new_size_it_goes_on_with_the_present_one(
    start: Start, clock: EventClock, broker: Broker, answers: list[bytes | None], unanswered: int, refused: int
) -> None:
    broker.answers = list(answers)
    played = Played(start, clock, broker.path, "1:8:2:- check=600").goes(600)
    if answers[-1] and b"\n" not in answers[-1]:
        broker.await_requests(1)
        wait_until(lambda: not broker.answers, "the answer")
        broker.hang_up()
    record = played.goes(1000).ends()
    assert played.sizes(record) == [(0, 2, STARTED)]
    assert (record.unanswered, record.refused, record.expansions, record.shrinks) == (unanswered, refused, 0, 0)


def test_without_a_broker_it_goes_on(start: Start, clock: EventClock, tmp_path: Path) -> None:
    record = Played(start, clock, tmp_path / "nobody", "1:8:2:- check=250").goes(250, 500, 750, 1000).ends()
    assert (record.checks, record.unanswered, record.waited_ns) == (3, 3, 0)


def test_it_asks_again_when_the_broker_is_back(start: Start, clock: EventClock, tmp_path: Path) -> None:
    path = tmp_path / "broker.socket"
    played = Played(start, clock, path, "1:8:2:- check=250").goes(250).waits_until(500)
    broker = Broker(path, [b"expanded 4 a,b,c,d\n"])
    record = played.goes(500, 750).ends()
    broker.close()
    assert played.sizes(record) == [(0, 2, STARTED), (500, 4, EXPANDED)]
    assert record.unanswered == 1


@pytest.mark.parametrize("said", [b"", b"expand"])
def test_a_broker_that_hangs_is_given_up(start: Start, clock: EventClock, broker: Broker, said: bytes) -> None:
    broker.answers = [SILENT]
    played = Played(start, clock, broker.path, "1:8:2:- check=600").goes(600)
    broker.await_requests(1)
    broker.say(said)
    record = played.goes(600 + PATIENCE, RUNTIME + PATIENCE).ends()
    assert (record.unanswered, record.waited_ns) == (1, PATIENCE * SECOND)


def test_an_answer_in_pieces(start: Start, clock: EventClock, broker: Broker) -> None:
    broker.answers = [SILENT]
    played = Played(start, clock, broker.path, "1:8:2:- check=600").goes(600)
    broker.await_requests(1)
    for piece in (b"exp", b"anded 4", b" a,", b"b" * 70_000, b"\n"):
        broker.say(piece)
        time.sleep(0.01)
    record = played.goes(800).ends()
    assert played.sizes(record) == [(0, 2, STARTED), (600, 4, EXPANDED)]


@pytest.mark.parametrize("answer", [b"shrunk 1 a\n", b"none 1\n", b"aborted 1 too late\n", b"expanded 1 a\n"])
def test_it_takes_the_size_that_an_answer_names(start: Start, clock: EventClock, broker: Broker, answer: bytes) -> None:
    """The answer to `ready` was lost, and the next one names the size."""
    broker.answers = [b"shrink 1 a\n", CLOSES, answer]
    played = Played(start, clock, broker.path, "1:8:2:- check=250")
    record = played.goes(250, 500, 750, 1000, 1250).waits_until(1500).passes(1500).ends()
    assert played.sizes(record) == [(0, 2, STARTED), (500, 1, SHRUNK)]


def test_a_shrink_that_was_given_up_may_name_another_size(start: Start, clock: EventClock, broker: Broker) -> None:
    broker.answers = [b"shrink 1 a\n", b"none 4 the nodes came in another way\n"]
    played = Played(start, clock, broker.path, "1:8:2:- check=600")
    record = played.goes(600, 800).ends()
    assert played.sizes(record) == [(0, 2, STARTED), (600, 4, EXPANDED)]
    assert record.refused == 1


def test_a_full_queue_of_the_broker_does_not_hold_up_the_end(start: Start, clock: EventClock, tmp_path: Path) -> None:
    path = tmp_path / "broker.socket"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as other:
        listener.bind(str(path))
        listener.listen(0)
        other.connect(str(path))
        played = Played(start, clock, path, "1:8:2:- check=600").goes(600)
        time.sleep(0.3)
        assert played.job.process.poll() is None
        played.job.send(SIGTERM)
        assert played.ends(143).checks == 1


# ---- signals ----


def test_cancelled_while_it_waits(start: Start, clock: EventClock, broker: Broker) -> None:
    broker.answers = [SILENT]
    played = Played(start, clock, broker.path, "1:8:2:- check=600").goes(600).waits_until(600 + PATIENCE).passes(610)
    played.job.send(SIGTERM)
    record = played.ends(143)
    assert (record.work_ns, record.waited_ns) == (600 * SECOND, 10 * SECOND)


def test_cancelled_while_it_pays(start: Start, clock: EventClock, broker: Broker) -> None:
    broker.answers = [b"expanded 4 a,b,c,d\n"]
    played = Played(start, clock, broker.path, "1:8:2:- check=600 cost=50:0").goes(600).waits_until(650).passes(620)
    played.job.send(SIGTERM)
    record = played.ends(143)
    assert (record.work_ns, record.paid_ns) == (600 * SECOND, 20 * SECOND)
    assert broker.all_requests() == ["mirage 1 check 77 2 1 8 2 0\n"]


@pytest.mark.parametrize("signal", [SIGTSTP, SIGSTOP])
def test_suspended_while_it_waits(start: Start, clock: EventClock, broker: Broker, signal: int) -> None:
    """The answer comes while the job is stopped; it takes it when it goes on."""
    broker.answers = [SILENT]
    played = Played(start, clock, broker.path, "1:8:2:- check=600").goes(600).waits_until(600 + PATIENCE).passes(610)
    played.job.process.send_signal(signal)
    played.job.await_state("T")
    if signal == SIGTSTP:
        clock.await_deadline(NEVER)
    time.sleep(0.05)
    broker.say(b"expanded 4 a,b,c,d\n")
    played.passes(800).job.send(SIGCONT)
    record = played.goes(1000).ends()
    assert played.sizes(record) == [(0, 2, STARTED), (800, 4, EXPANDED)]
    assert record.waited_ns == 10 * SECOND
    assert len(played.job.only_record().suspensions) == 1


def test_suspended_while_it_pays(start: Start, clock: EventClock, broker: Broker) -> None:
    broker.answers = [b"expanded 4 a,b,c,d\n"]
    played = Played(start, clock, broker.path, "1:8:2:- check=600 cost=50:0").goes(600).waits_until(650).passes(620)
    played.job.send(SIGTSTP).await_state("T")
    played.passes(1000).job.send(SIGCONT)
    record = played.goes(1030, 1230).ends()
    assert record.paid_ns == 50 * SECOND
    assert played.sizes(record)[-1] == (1030, 4, COST_ENDED)


def test_suspended_while_it_runs(start: Start, clock: EventClock, broker: Broker) -> None:
    broker.answers = [b"expanded 4 a,b,c,d\n"]
    played = Played(start, clock, broker.path, "1:8:2:- check=600").goes(600).waits_until(800).passes(700)
    played.job.send(SIGTSTP).await_state("T")
    played.passes(5000).job.send(SIGCONT)
    assert played.goes(5100).ends().work_ns == RUNTIME * SECOND


def test_killed_while_it_waits(start: Start, clock: EventClock, broker: Broker) -> None:
    broker.answers = [SILENT]
    played = Played(start, clock, broker.path, "1:8:2:- check=600").goes(600).waits_until(600 + PATIENCE)
    played.job.send(SIGKILL).end()
    assert [slot.owner for slot in clock.slots()] == [0]


# ---- the start ----


def test_a_restarted_job_has_the_nodes_that_it_was_given(start: Start, clock: EventClock, broker: Broker) -> None:
    """Its run time is that of its submitted size."""
    played = Played(start, clock, broker.path, "1:8:2:- check=900", SLURM_JOB_NUM_NODES=4, SLURM_RESTART_COUNT=1)
    record = played.goes(500).ends()
    assert played.sizes(record) == [(0, 4, STARTED)]
    assert played.job.only_record().restart == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": None}, "--nodes: is missing, see sigsleep --help"),
        ({"broker": None}, "--broker: is missing, see sigsleep --help"),
        ({"malleable": None}, "--malleable: is missing, see sigsleep --help"),
        ({"nodes": 0}, "--nodes 0: must be a whole number from 1 to 4294967295"),
        ({"nodes": 1_000_001}, "--nodes: must be 1000000 or less"),
        ({"broker": "x" * 108}, f"--broker {'x' * 108}: must be the path of a socket, of up to 107 bytes"),
        ({"broker": ""}, "--broker: must be the path of a socket, of up to 107 bytes"),
        ({"malleable": "4:1:2:-"}, "--malleable 4:1:2:-: the minimum is above the maximum"),
        ({"malleable": "1:4:1:-"}, "--malleable 1:4:1:-: the factor must be 2 or more"),
        ({"malleable": "1:4:2:8"}, "--malleable 1:4:2:8: the preferred size is not within the minimum and the maximum"),
    ],
)
def test_wrong_use(start: Start, tmp_path: Path, options: dict[str, object], message: str) -> None:
    job = start(1, popen={"env": environment()}, **{"malleable": "1:4:2:-", "nodes": 2, "broker": "b", **options})
    assert job.end() == (2, f"sigsleep: wrong use: {message}\n")
    assert not job.log.exists()


def test_outside_slurm(start: Start) -> None:
    job = start(1, malleable="1:4:2:-", nodes=2, broker="b")
    assert job.end() == (2, "sigsleep: wrong use: --malleable: only inside a job of Slurm: SLURM_JOB_ID is missing\n")


def reads(program: Path, log: Path, words: str) -> int:
    """The exit code of a job of no length with these words."""
    command = [program, "--id", "1", "--cores", "1", "--priority", "p", "--submit", "0", "--runtime", "0", "--log", log]
    command += ["--nodes", "2", "--broker", "b", "--malleable", words]
    return subprocess.run(command, env=environment(), capture_output=True, check=False).returncode


@settings(max_examples=150, deadline=None)
@given(
    text=st.text(alphabet="0123456789:-=., acehkmnstbl", max_size=40)
    | st.from_regex(
        r"[0-9]:[0-9]:[0-9]:[-0-9]( check=[0-9.]{1,4})?( cost=[0-9.:]{1,6})?( speedup=table:[0-9=.,]{3,9})?( async)?",
        fullmatch=True,
    )
)
def test_it_accepts_what_the_reader_of_words_accepts(
    builds: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """The reader's own text of it, and nothing else that has single spaces."""
    log = tmp_path_factory.getbasetemp() / "words.log"
    try:
        words = Malleable.parse(text).text()
    except WrongUse:
        words = ""
    if words:
        assert reads(builds["sanitized"], log, words) == 0
    elif "\0" not in text:
        assert reads(builds["sanitized"], log, text) == 2
