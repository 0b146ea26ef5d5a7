"""Slurm's answers that the broker reads, and the settings with which jobs change their size."""

import pytest

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.malleable.resizing import GRES, HAS_LICENSES, growth_hosts, parse_overview
from slurm_mirage.extras.malleable.resizing_settings import check, needs_recount, permit_expansion
from slurm_mirage.rm.api import JobState
from slurm_mirage.rm.slurm.records import seconds

QUEUE = """\
30|PD|5|70|batch|default|normal|5:00|0:00|5:00|1795366270|4294901740|OK|n/a|N/A|(null)|Priority||rigid
25|PD|2|8|batch|default|normal|5:00|0:00|5:00|N/A|0|NO|n/a|N/A|(null)|JobHeldUser||held
26|PD|4|64|batch,long|default|normal|5:00|0:00|5:00|N/A|4294901739|NO|n/a|N/A|(null)|Resources||a|b
27|PD|4|64|batch|default|normal|5:00|0:00|5:00|N/A|4294901738|NO|n/a|N/A|(null)|Dependency||after
21|R|4|64|batch|default|normal|1:40:00|0:08|1:39:52|1795366268|4294901742|NO|n1|N/A|(null)|None|n[1-4]|wrap
22|R|2|32|batch|(null)|(null)|UNLIMITED|1-00:00:01|UNLIMITED|1795366268|4294901742|NO|n5|gres/gpu:1|(null)|None|n[5-6]|gpu
23|CG|1|16|batch|(null)|(null)|1:00|0:59|0:01|1795366268|1|NO|n7|N/A|matlab:2|None|n7|licensed
"""
PARTITIONS = """\
batch|allocated|n[1,3-7]|96/0/0/96
batch|mixed|n[8-9]|20/12/0/32
batch|idle|n[2,10-11]|0/48/0/48
batch|planned|n12|0/16/0/16
batch|idle*|n[13-16]|0/0/64/64
long|idle|n[2,10-11]|0/48/0/48
"""


def test_the_queue_and_the_idle_nodes() -> None:
    overview = parse_overview(QUEUE, PARTITIONS)
    assert [(job.job_id, job.nodes, job.whole_nodes, job.partition) for job in overview.waiting] == [
        (30, 5, False, "batch"),
        (26, 4, True, "batch"),
    ]
    assert overview.unmet == {30: "rigid", 25: "held", 26: "a|b", 27: "after"}
    assert overview.idle == {"batch": 4, "long": 3}
    # n2 comes before the batch hosts n5 and n7, and after n1.
    assert overview.growable == {21: 4, 22: 3, 23: 3}
    assert overview.free_processors == {"batch": 76, "long": 48}
    job = overview.jobs[21]
    assert (job.state, job.nodes, job.processors, job.hosts, job.first_host) == (JobState.RUNNING, 4, 64, "n[1-4]", "n1")
    assert (job.start, job.used, job.limit, job.left) == (1795366268, 8, 6000, 5992)
    assert (job.account, job.qos, job.fixed) == ("default", "normal", "")
    unlimited = overview.jobs[22]
    assert (unlimited.limit, unlimited.left, unlimited.used) == (None, None, 86401)
    assert (unlimited.account, unlimited.fixed) == ("", GRES)
    assert (overview.jobs[23].state, overview.jobs[23].fixed) == (JobState.COMPLETING, HAS_LICENSES)


@pytest.mark.parametrize(
    ("text", "length"), [("0:03", 3), ("1:00:00", 3600), ("2-00:00:00", 172_800), ("UNLIMITED", None), ("INVALID", None)]
)
def test_lengths(text: str, length: int | None) -> None:
    assert seconds(text) == length


def test_expansions_are_permitted_whatever_the_parameters_are_written_as() -> None:
    assert permit_expansion({}, "")["SchedulerParameters"] == "permit_job_expansion"
    assert permit_expansion({"schedulerparameters": "defer"}, "") == {"schedulerparameters": "defer,permit_job_expansion"}
    mapping = permit_expansion({"SchedulerParameters": {"defer": True}}, "22.05.8")
    assert mapping == {"SchedulerParameters": {"defer": True, "permit_job_expansion": True}}
    assert permit_expansion({"Licenses": "matlab:2"}, "25.11.7")["Licenses"] == "matlab:2,mirage_resize:100000000"


@pytest.mark.parametrize(
    ("version", "accounting", "front_ends", "reason"),
    [
        ("22.05.8", False, 0, "only with accounting"),
        ("21.08.1", True, 0, "22.05 or later"),
        ("24.11.5", True, 2, "front-end mode"),
    ],
)
def test_clusters_whose_jobs_cannot_change_their_size(version: str, accounting: bool, front_ends: int, reason: str) -> None:
    with pytest.raises(WrongUse, match=reason):
        check(version, accounting, front_ends)


def test_clusters_whose_jobs_can_change_their_size() -> None:
    check("22.05.8", True, 0)
    check("24.11.0", False, 0)
    check("", False, 0)


@pytest.mark.parametrize(
    ("version", "needed"),
    [("slurm-wlm 22.05.8\n", True), ("slurm 24.11.7", True), ("slurm 25.11.7", False), ("slurm 26.05.3", False)],
)
def test_releases_that_count_again_after_a_shrink(version: str, needed: bool) -> None:
    assert needs_recount(version) is needed


def test_a_job_does_not_grow_by_nodes_before_its_batch_host() -> None:
    """slurmctld would take n2 for the node of the batch script, and refuse the script's end from n9."""
    answer = "n2|idle\nn8|idle\nn9|allocated\nn10|planned\nn11|mixed\nn12|idle\n"
    assert growth_hosts(answer, "n9") == (2, ["n2", "n8"])


def test_a_job_on_the_first_node_grows_by_any_node() -> None:
    assert growth_hosts("n1|allocated\nn2|idle\n", "n1") == (1, [])
