"""The broker with a resource manager in memory: requests, promises, lost actions, and what a killed broker leaves."""

import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_mirage.base.hostlist import compress
from slurm_mirage.extras.malleable.broker.broker import Broker, Client
from slurm_mirage.extras.malleable.broker.journal import Journal
from slurm_mirage.extras.malleable.broker.protocol import parse
from slurm_mirage.extras.malleable.broker.queue import resizer_name
from slurm_mirage.extras.malleable.sizes import Overview, SizedJob, WaitingJob
from slurm_mirage.rm.api import JobState, Refused, Unavailable

NODES = 16


class Manager:
    """A resource manager in memory: jobs by id, each with its nodes by number, and jobs that wait."""

    def __init__(self) -> None:
        self.jobs: dict[int, SizedJob] = {}
        self.nodes: dict[int, list[int]] = {}
        self.waiting: list[WaitingJob] = []
        self.first: list[int] = []
        self.limits: list[int | None] = []
        self.looks = self.frees = self.recounts = 0
        self.is_unavailable = False
        self.most_growth = NODES
        self.gate: threading.Event | None = None
        """While it is not set, `take_nodes` waits."""

    def start(self, job_id: int, nodes: int, name: str = "job") -> None:
        self.nodes[job_id] = self._idle()[:nodes]
        self.jobs[job_id] = SizedJob(job_id, name, JobState.RUNNING, 0, 0, "", "", "batch", "", "", 100, 0, 3600, 3600)

    def end(self, job_id: int) -> None:
        self.jobs[job_id] = replace(self.jobs[job_id], state=JobState.ENDED)
        self.nodes[job_id] = []

    def wait(self, job_id: int, nodes: int) -> None:
        self.waiting.append(WaitingJob(job_id, nodes, nodes, True, "batch"))

    def _idle(self) -> list[int]:
        taken = {node for nodes in self.nodes.values() for node in nodes}
        return [node for node in range(1, NODES + 1) if node not in taken]

    def overview(self) -> Overview:
        self.looks += 1
        jobs = {job_id: job for job_id in list(self.jobs) if (job := self.job(job_id)) and job.state is not JobState.ENDED}
        idle = len(self._idle())
        unmet = {job.job_id: "waits" for job in self.waiting}
        growable = {job_id: min(idle, self.most_growth) for job_id in jobs}
        return Overview(jobs, tuple(self.waiting), unmet, {"batch": idle}, growable, {"batch": idle})

    def job(self, job_id: int) -> SizedJob | None:
        if job_id not in self.jobs:
            return None
        names = [f"n{node}" for node in sorted(self.nodes[job_id])]
        hosts = compress(names) if names else ""
        return replace(
            self.jobs[job_id], nodes=len(names), processors=len(names), hosts=hosts, first_host=names[0] if names else ""
        )

    def take_nodes(self, job: SizedJob, nodes: int, name: str, patience: int) -> int:
        if self.gate:
            self.gate.wait()
        if len(self._idle()) < nodes:
            raise Refused(f"no nodes within {patience} s")
        self.start(1000 + job.job_id, nodes, name)
        return 1000 + job.job_id

    def merge(self, allocation: int) -> None:
        self.nodes[allocation - 1000] += self.nodes.pop(allocation)
        del self.jobs[allocation]

    def keep_nodes(self, job_id: int, hosts: Iterable[str], limit_minutes: int | None) -> None:
        self.nodes[job_id] = [int(name[1:]) for name in hosts]
        self.limits.append(limit_minutes)

    def put_first(self, job_id: int) -> None:
        self.first.append(job_id)

    def cancel(self, job_ids: Iterable[int]) -> None:
        for job_id in job_ids:
            self.nodes.pop(job_id)
            del self.jobs[job_id]

    def cancel_named(self, name: str) -> None:
        self.cancel([job_id for job_id, job in self.jobs.items() if job.name == name])

    def recount_after_shrinks(self) -> None:
        if self.is_unavailable:
            raise Unavailable("no answer")
        self.recounts += 1

    def free_lost_nodes(self) -> None:
        self.frees += 1


@pytest.fixture
def manager() -> Manager:
    return Manager()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path


@pytest.fixture
def broker(manager: Manager, directory: Path) -> Broker:
    return Broker(manager, Journal(directory))


def ask(broker: Broker, words: str, client: Client | None = None) -> str:
    """The answer to a request of a job, from the connection `client`, or one of its own."""
    request = parse(f"mirage 1 {words}".encode())
    return broker.answer(client or Client(request.job), request) or ""


def journal(directory: Path) -> list[dict[str, object]]:
    return [dict(entry) for entry in Journal(directory).entries()]


def test_a_job_grows_and_shrinks(broker: Broker, manager: Manager, directory: Path) -> None:
    manager.start(1, 2)
    client = Client(1)
    assert ask(broker, "check 1 2 4 8 2 0", client) == "expanded 4 n1,n2,n3,n4"
    assert ask(broker, "check 1 4 1 1 2 0", client) == "shrink 1 n1"
    assert manager.nodes[1] == [1, 2, 3, 4]
    assert ask(broker, "ready 1 1", client) == "shrunk 1 n1"
    assert manager.nodes[1] == [1]
    assert manager.limits == [120]
    assert ask(broker, "resumed 1 2.5", client) == ""
    done = [entry for entry in journal(directory) if "outcome" in entry]
    assert [(entry["kind"], entry["from"], entry["to"], entry["outcome"]) for entry in done] == [
        ("expand", 2, 4, "done"),
        ("shrink", 4, 1, "done"),
    ]
    assert journal(directory)[-1]["cost"] == 2.5


def test_nodes_are_counted_again_once_after_shrinks(broker: Broker, manager: Manager) -> None:
    manager.start(1, 4)
    client = Client(1)
    assert ask(broker, "check 1 4 8 8 2 0", client).startswith("expanded 8")
    broker.recount()
    assert manager.recounts == 0
    for size in (4, 2):
        assert ask(broker, f"check 1 {size * 2} 1 {size} 2 0", client).startswith(f"shrink {size}")
        assert ask(broker, f"ready 1 {size}", client).startswith(f"shrunk {size}")
    manager.is_unavailable = True
    with pytest.raises(Unavailable):
        broker.recount()
    manager.is_unavailable = False
    broker.recount()
    broker.recount()
    assert manager.recounts == 1


def test_a_job_grows_only_by_nodes_that_it_can_get(broker: Broker, manager: Manager) -> None:
    manager.start(1, 2)
    manager.most_growth = 2
    assert ask(broker, "check 1 2 1 16 2 0") == "expanded 4 n1,n2,n3,n4"


def test_a_job_shrinks_for_the_first_who_can_start_then_and_nobody_else_gets_the_nodes(broker: Broker, manager: Manager) -> None:
    for job in (1, 2):
        manager.start(job, 8)
    manager.wait(50, 4)
    first, second = Client(1), Client(2)
    assert ask(broker, "check 1 8 1 8 2 0", first) == "shrink 4 n1,n2,n3,n4"
    # The job that waits is served: no other one shrinks for it, and none takes what it is to get.
    assert ask(broker, "check 2 8 1 16 2 0", second) == "none 8"
    assert ask(broker, "ready 1 4", first) == "shrunk 4 n1,n2,n3,n4"
    assert manager.first == [50]
    assert ask(broker, "check 2 8 1 16 2 0", second) == "none 8"
    assert ask(broker, "check 2 8 9 16 2 0", second).startswith("none 8 0 idle nodes are too few")


def test_two_jobs_at_once_do_not_get_the_same_nodes(broker: Broker, manager: Manager) -> None:
    manager.start(1, 4)
    manager.start(2, 4)
    manager.gate = threading.Event()
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(ask(broker, "check 1 4 1 8 2 0")))
    thread.start()
    while not broker._queue.growing:
        pass
    # 8 nodes are idle, and 4 of them are promised; the other job is answered although the first one waits.
    assert ask(broker, "check 2 4 16 16 2 0").startswith("none 4 4 idle nodes are too few")
    manager.gate.set()
    thread.join()
    assert answers == ["expanded 8 n1,n2,n3,n4,n9,n10,n11,n12"]


def test_an_icheck_acts_upon_the_decision_of_the_last_one(broker: Broker, manager: Manager) -> None:
    manager.start(1, 4)
    client = Client(1)
    assert ask(broker, "icheck 1 4 1 8 2 0", client) == "none 4"
    broker.prepare(client)
    assert ask(broker, "icheck 1 4 1 8 2 0", client) == "expanded 8 n1,n2,n3,n4,n5,n6,n7,n8"
    broker.prepare(client)
    assert ask(broker, "icheck 1 8 1 8 2 0", client) == "none 8"


def test_an_icheck_whose_nodes_others_have_taken_is_aborted(broker: Broker, manager: Manager) -> None:
    manager.start(1, 8)
    client = Client(1)
    ask(broker, "icheck 1 8 1 16 2 0", client)
    broker.prepare(client)
    manager.start(2, 1)
    assert ask(broker, "icheck 1 8 1 16 2 0", client) == "aborted 8 no nodes within 40 s"


def test_a_shrink_without_ready_is_not_done(broker: Broker, manager: Manager, directory: Path) -> None:
    manager.start(1, 4)
    client = Client(1)
    assert ask(broker, "check 1 4 1 1 2 0", client) == "shrink 1 n1"
    assert ask(broker, "ready 1 2", client) == "refused job 1 was not asked to shrink to 2 nodes"
    assert ask(broker, "check 1 4 1 1 2 0", client) == "shrink 1 n1"
    broker.leave(client)
    assert len(manager.nodes[1]) == 4
    assert {entry["outcome"] for entry in journal(directory)} == {"aborted"}
    assert ask(broker, "ready 1 1") == "refused job 1 was not asked to shrink to 1 nodes"


def test_a_job_whose_process_does_not_know_its_size_is_told(broker: Broker, manager: Manager) -> None:
    """The answer was lost with a connection, or the change with the controller."""
    manager.start(1, 4)
    assert ask(broker, "check 1 2 1 8 2 0") == "expanded 4 n1,n2,n3,n4"
    assert ask(broker, "check 1 8 1 8 2 0") == "shrunk 4 n1,n2,n3,n4"


def test_refusals(broker: Broker, manager: Manager) -> None:
    manager.start(1, 4)
    assert ask(broker, "check 1 4 1 8 2 0", Client(2)) == "refused job 1 is not the job of this process"
    manager.jobs[1] = replace(manager.jobs[1], fixed="asks for generic resources (GRES)")
    assert ask(broker, "check 1 4 1 8 2 0") == "refused job 1 asks for generic resources (GRES)"
    manager.end(1)
    broker._queue.forget()
    assert ask(broker, "check 1 4 1 8 2 0") == "refused job 1 does not run"
    assert ask(broker, "check 9 4 1 8 2 0") == "refused job 9 does not run"


def test_a_job_near_its_limit_and_a_suspended_one_keep_their_size(broker: Broker, manager: Manager) -> None:
    manager.start(1, 4)
    manager.jobs[1] = replace(manager.jobs[1], left=59)
    assert ask(broker, "check 1 4 1 8 2 0") == "none 4"
    manager.jobs[1] = replace(manager.jobs[1], state=JobState.SUSPENDED)
    broker._queue.forget()
    assert ask(broker, "check 1 4 1 8 2 0") == "none 4 the job is suspended"


def test_many_checks_look_at_the_queue_once(broker: Broker, manager: Manager) -> None:
    for job in range(1, 9):
        manager.start(job, 2)
    for job in range(1, 9):
        assert ask(broker, f"check {job} 2 2 2 2 0") == "none 2"
    assert manager.looks <= 2


def test_nodes_that_came_after_the_end_of_their_job_are_freed(broker: Broker, manager: Manager) -> None:
    """Slurm merges an allocation into a job that has ended, and its nodes belong to nobody then."""
    manager.start(1, 2)
    merge = manager.merge

    def merge_late(allocation: int) -> None:
        merge(allocation)
        manager.end(1)

    manager.merge = merge_late  # type: ignore[method-assign]
    assert ask(broker, "check 1 2 4 4 2 0") == "aborted 2 the job has ended"
    assert manager.frees == 1


def test_the_next_broker_ends_the_allocations_of_a_killed_one(manager: Manager, directory: Path) -> None:
    manager.start(1, 2)
    manager.start(1001, 2, resizer_name(1))
    Journal(directory).add({"begun": "expand", "job": 1, "from": 2, "to": 4, "asked": 1, "decided": 1, "start": 100, "limit": 3600})
    assert Broker(manager, Journal(directory)).clean() is True
    assert 1001 not in manager.jobs and len(manager.nodes[1]) == 2


def test_the_next_broker_frees_the_nodes_of_a_shrink_that_was_under_way(manager: Manager, directory: Path) -> None:
    """The killed broker may have taken the nodes from the job without having them counted again."""
    manager.start(1, 2)
    Journal(directory).add({"begun": "shrink", "job": 1, "from": 4, "to": 2, "asked": 1, "decided": 1, "start": 100, "limit": 3600})
    broker = Broker(manager, Journal(directory))
    broker.clean()
    assert manager.frees == 1
    broker.clean()
    assert manager.frees == 1


def test_a_merge_that_the_controller_has_forgotten_is_repeated(broker: Broker, manager: Manager, directory: Path) -> None:
    manager.start(1, 2)
    assert ask(broker, "check 1 2 4 4 2 0").startswith("expanded 4")
    manager.nodes[1] = [1, 2]
    manager.start(1001, 2, resizer_name(1))
    assert Broker(manager, Journal(directory)).clean() is True
    assert sorted(manager.nodes[1]) == [1, 2, 3, 4]


def test_limits_are_known_after_a_restart(broker: Broker, manager: Manager, directory: Path) -> None:
    manager.start(1, 4)
    client = Client(1)
    ask(broker, "check 1 4 1 2 2 0", client)
    ask(broker, "ready 1 2", client)
    manager.jobs[1] = replace(manager.jobs[1], limit=7200, left=3600, used=3600)
    broker = Broker(manager, Journal(directory))
    ask(broker, "check 1 2 1 1 2 0", client)
    ask(broker, "ready 1 1", client)
    # 4 node hours, of which 2 are done with 2 nodes in an hour: two more hours with one.
    assert manager.limits == [120, 180]


def test_a_torn_journal_is_read_and_goes_on(broker: Broker, manager: Manager, directory: Path) -> None:
    with (directory / "log/resizes.jsonl").open("a") as file:
        file.write('{"job": 1, "outcome": "do')
    manager.start(1, 2)
    broker = Broker(manager, Journal(directory))
    assert ask(broker, "check 1 2 1 2 2 0") == "none 2"
    assert journal(directory)[-1]["outcome"] == "none"
