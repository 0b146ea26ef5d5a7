"""Comparisons of machines (GROW): what is planned and what is refused, without a cluster."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from grown_runs import a_run
from real_logs import KTH, real_log

from mirage.campaign.campaign import Campaign
from mirage.campaign.conclusion import conclude, members_of
from mirage.commands import compare as command
from mirage.commands.compare import compare
from mirage.experiment import runs
from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.growth import MORE, MOVED
from mirage.experiment.prepare import Prepared
from mirage.knobs import resolve as knobs
from mirage.knobs.knobs import Knobs
from mirage.records.run_folder import RunFolder
from mirage.reports import growth_page
from mirage.terminal.screen import Screen
from mirage.workloads import example_site
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.jobs.request import Request

SWF = "; MaxProcs: 100\n" + "".join(
    f"{k} {k * 30} 0 {600 + 7 * k} {1 + k % 9} -1 -1 {1 + k % 9} 3600 -1 1 1 1 -1 -1 -1 -1 -1\n" for k in range(1, 60)
)


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setattr(runs, "RESULTS", folder)
    (tmp_path / "log.swf").write_text(SWF)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("site") / "site.tar"
    example_site.write(path, 48, 120, 1)
    return str(path)


class Planned(Exception):
    """The campaign that would be run."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign


def planned(monkeypatch: pytest.MonkeyPatch, **given: str) -> tuple[Campaign, str]:
    """The campaign of make compare with these knobs, and what it says before it runs."""

    def run(campaign: Campaign, _screen: Screen) -> None:
        raise Planned(campaign)

    monkeypatch.setattr(command.Campaign, "run", run)
    told = {"RUN": "r", "SPEED": "20", "REPLICAS": "1", **given}
    with pytest.raises(Planned) as ended:
        compare(knobs.resolve(told, "compare"), Screen(stream := io.StringIO()))
    return ended.value.campaign, stream.getvalue()


def of_log(tmp_path: Path, **given: str) -> dict[str, str]:
    return {"TRACE": str(tmp_path / "log.swf"), "CPUS": "1", "CONFIG": "backfill", **given}


def played(prepared: Prepared) -> tuple[object, ...]:
    """All that a run on the event clock is made of: what is submitted, and the variables of the playbooks."""
    at_speed = prepared.knobs.at_speed("event")
    return (
        Prepared.plan(prepared, "r"),
        prepared.workload.jobs.write_csv(),
        {name: value for name, value in cluster_variables(at_speed).items() if name != "mirage_config"},
    )


@pytest.mark.parametrize("source", ["own", "kth"])
def test_a_machine_grown_to_100_nodes_is_one_of_100(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = {"TRACE": str(real_log(KTH)), "JOBS": "500", "OFFSET": "19151", "SIZES": "fit"} if source == "kth" else {}
    grown, _ = planned(monkeypatch, **of_log(tmp_path, NODES="90", GROW="+10", **log))
    larger, _ = planned(monkeypatch, **of_log(tmp_path, NODES="100", GROW="+5", **log))
    assert [*grown.prepared] == ["now", "plus-10"]
    assert grown.prepared["plus-10"].knobs.nodes.machine == larger.prepared["now"].knobs.nodes.machine
    assert played(grown.prepared["plus-10"]) == played(larger.prepared["now"])
    assert played(grown.prepared["now"]) != played(larger.prepared["now"])


def test_each_machine_is_an_input_of_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, said = planned(monkeypatch, **of_log(tmp_path, NODES="90", GROW="+10; +20 price=9"))
    assert [*campaign.prepared] == ["now", "plus-10", "plus-20"]
    own = {part.member.label: campaign._inputs_of(part) for part in campaign.parts}
    assert {label: (one["GROW"], one["NODES"]) for label, one in own.items()} == {
        "now": ("", "90"),
        "plus-10": ("+10", "100"),
        "plus-20": ("+20 price=9", "110"),
    }
    assert "plus-10: n[91-100] like n[1-90] of 1 CPUs\n" in said


def test_jobs_that_only_the_larger_machine_holds_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of 9 processors are left out on 8 nodes: a selection by number then ends later in the log."""
    fitting = of_log(tmp_path, NODES="8", GROW="+1", SIZES="fit", JOBS="20")
    campaign, said = planned(monkeypatch, **fitting)
    now, more = (set(one.workload.jobs["id"]) for one in campaign.prepared.values())
    words = f"plus-1: {len(more - now)} jobs that the machine as it is does not hold, and {len(now - more)} of its jobs less"
    assert len(more - now) == 2 and len(now - more) == 2 and words in said
    assert "does not hold" not in planned(monkeypatch, **of_log(tmp_path, NODES="9", GROW="+1", SIZES="fit"))[1]


def test_the_machine_of_a_site(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, said = planned(monkeypatch, SITE=site, GROW="gpu:+8; cpu:+32")
    variables = {label: cluster_variables(one.knobs.at_speed("event")) for label, one in campaign.prepared.items()}
    nodes = {label: sum(one["count"] for one in own["slurm_controller_nodes"]) for label, own in variables.items()}
    assert nodes == {"now": 48, "plus-8-gpu": 56, "plus-32-cpu": 80}
    listed = {label: {one["name"]: one["Nodes"] for one in own["slurm_controller_partitions"]} for label, own in variables.items()}
    assert listed["plus-8-gpu"] == {"batch": "node[1-32]", "gpu": "node[33-56]", "short": "ALL"}
    assert listed["plus-32-cpu"]["batch"] == "node[1-32,49-80]"
    assert "grown1" in variables["plus-8-gpu"]["slurm_controller_topology"]
    plans = [[*one.plan("r")] for one in campaign.prepared.values()]
    assert plans[0] == plans[1] == plans[2], "the jobs are the same"
    assert "plus-8-gpu: node[49-52] like node[33-40] of 16 CPUs, gpu:a100:4, new in gpu, Weight=10\n" in said
    assert "stays as it is, and may keep new nodes idle: GrpTRES=cpu=256 of 8 associations" in said


def test_a_new_type_of_gpus_gets_its_share_of_the_jobs(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, said = planned(monkeypatch, SITE=site, GROW="gpu:type=h100:8 factor=0.5")
    now, more = (one.workload for one in campaign.prepared.values())
    moved = [(a, b) for a, b in zip(now.jobs.to_dicts(), more.jobs.to_dicts(), strict=True) if a != b]
    asked = [one["request"] for one in now.jobs.to_dicts() if "gpu:" in one["request"]]
    assert more.notes[MOVED] == len(moved) and 0 < len(moved) < len(asked)
    for before, after in moved:
        [(kind, number)] = [one.rpartition(":")[::2] for one in Request.parse(before["request"]).gres.split(",")]
        assert kind in ("gpu:a100", "gpu:v100")
        assert Request.parse(after["request"]).gres == f"gpu:h100:{number}"
        assert after["runtime"] == before["runtime"] / 2 and after["limit_minutes"] <= before["limit_minutes"]
        changed = {name for name in before if before[name] != after[name]}
        assert changed <= {"request", "runtime", "runtime_virtual", "requested", "limit_minutes", "limit_extended"}
    assert f"plus-8-gpu-h100: {len(moved)} jobs on the new type of GPUs\n" in said
    assert campaign.prepared["now"].recorded is not None and campaign.prepared["plus-8-gpu-h100"].recorded is None
    again, _ = planned(monkeypatch, SITE=site, GROW="gpu:type=h100:8 factor=0.5")
    assert played(again.prepared["plus-8-gpu-h100"]) == played(campaign.prepared["plus-8-gpu-h100"])


def test_two_new_types_share_the_jobs(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No job is moved twice, and each type has as many jobs as its part of all GPUs."""
    campaign, _ = planned(monkeypatch, SITE=site, GROW="gpu:type=h100:1000 factor=0.5 gpu:type=b200:1000 factor=0.25")
    now, more = (one.workload.jobs for one in campaign.prepared.values())
    ratios = Counter(after / before for after, before in zip(more["runtime"], now["runtime"], strict=True))
    assert set(ratios) == {1.0, 0.5, 0.25}
    asked = now.filter(pl.col("request").str.contains("gpu:")).height
    assert ratios[0.25] / asked == pytest.approx(2 / 3, abs=0.2) and ratios[0.5] / asked == pytest.approx(1 / 3, abs=0.2)


@pytest.mark.parametrize(("grow", "widest"), [("gpu:type=h100:2", 2), ("gpu:type=h100:8 factor=3", 0)])
def test_a_job_that_new_nodes_do_not_hold_stays(grow: str, widest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of up to four nodes that ask for MaxTime."""
    conf = "GresTypes=gpu\nNodeName=n[1-8] CPUs=4 Gres=gpu:a100:4\nPartitionName=p Nodes=ALL Default=YES MaxTime=120\n"
    (tmp_path / "slurm.conf").write_text(f"ClusterName=c\n{conf}")
    lines = ["JobIDRaw|User|Partition|Submit|Start|End|State|AllocCPUS|ReqCPUS|NNodes|ReqNodes|Timelimit|ReqTRES"]
    for k in range(1, 41):
        nodes, at = 1 + k % 4, f"2026-01-01T00:{k:02}:00"
        asked = f"{4 * nodes}|{4 * nodes}|{nodes}|{nodes}|02:00:00|cpu={4 * nodes},node={nodes},gres/gpu:a100={4 * nodes}"
        lines.append(f"{k}|ann|p|{at}|{at}|2026-01-01T01:00:00|COMPLETED|{asked}")
    (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    given = {"SLURM_CONF": str(tmp_path / "slurm.conf"), "TRACE": str(tmp_path / "sacct.txt"), "GROW": grow}
    campaign, _ = planned(monkeypatch, MIRAGE_GIVEN="SLURM_CONF TRACE", **given)
    now, more = campaign.prepared.values()
    moved = more.workload.jobs.filter(pl.col("request").str.contains("h100"))
    assert (moved["processors"].max() or 0) == 4 * widest
    assert more.requests.counts == now.requests.counts, "each keeps its partition and what it asks for"


def test_more_demand_is_of_jobs_that_may_use_the_new_nodes(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, said = planned(monkeypatch, SITE=site, GROW="gpu:+8; gpu:+8 demand=50%")
    now, same, more = campaign.prepared.values()
    assert same.workload.jobs.equals(now.workload.jobs)
    ids = set(now.workload.jobs["id"])
    plan = {row.id: row for row in more.plan("r")}
    copies = [row for row in plan.values() if row.id not in ids]
    assert ids < plan.keys() and len(copies) == more.workload.notes[MORE]
    assert {row.partition for row in copies} <= {"gpu", "short"} and any(row.partition == "gpu" for row in copies)
    assert not any(row.dependency for row in copies)
    assert [*more.dues] == sorted(more.dues)
    assert f"plus-8-gpu-demand-50: {len(copies)} jobs more than the log has\n" in said


def test_added_jobs_are_no_jobs_of_the_other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller machine plays jobs from later in the log."""
    given = of_log(tmp_path, NODES="8", GROW="+1 demand=50%", SIZES="fit", JOBS="20")
    campaign, said = planned(monkeypatch, **given)
    now, more = ({one["id"]: one["submit"] for one in own.workload.jobs.to_dicts()} for own in campaign.prepared.values())
    assert max(now) > 20 and len(more) == 30
    assert all(now[job] == more[job] for job in now.keys() & more.keys())
    assert "2 jobs that the machine as it is does not hold, and 2 of its jobs less" in said


def test_long_machines_have_short_names(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many = "node:+1 batch:+1 old:+2 new:+2 a100:+1 v100:+1 gpu:+2 cpu:+2"
    campaign, _ = planned(monkeypatch, SITE=site, GROW=f"{many}; {many} node:+3")
    now, *labels = campaign.prepared
    assert now == "now" and len(set(labels)) == 2 and all(len(label) < 45 for label in labels)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"CONFIGS": "fifo backfill"}, "leave out CONFIGS"),
        ({"SLURMS": "22.05 packages"}, "leave out SLURMS"),
        ({"SIZES": "scale"}, "leave out SIZES=scale"),
        ({"GROW": "gpu:+4"}, "there is no class gpu; it may be one of: n"),
        ({"CLASSES": "machines/example.yml", "NODES": "", "CPUS": ""}, "nodes are not all alike; it may name a class: "),
    ],
)
def test_refusals(tmp_path: Path, given: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.releases, "read", lambda *_, **__: [])
    with pytest.raises(WrongUse) as refusal:
        compare(
            knobs.resolve({**of_log(tmp_path, NODES="90", GROW="+10"), "SPEED": "20", **given}, "compare"), Screen(io.StringIO())
        )
    message = knobs.user_message(refusal.value)
    assert message.startswith("GROW") and words in message and "\n" not in message


def test_partitions_of_a_configuration_that_list_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mirage.campaign import arms

    class Fixed:
        partitions = ({"name": "a", "Nodes": "n[1-3]"},)

    monkeypatch.setattr(arms.configuration, "of", lambda _: Fixed)
    own: Knobs = knobs.resolve(of_log(tmp_path, NODES="9", GROW="+1"), "compare")
    with pytest.raises(WrongUse, match=r"partition a of configs/backfill\.yml lists its nodes"):
        arms.grown_machines(own)


# ---- results ----

BEFORE = "NodeName=n[1-2] CPUs=4\nPartitionName=a Nodes=n[1-2]\nPartitionName=g Nodes=n2\n"
LATER = ((0, 0, 60, 4, "a", "n1", ""), (0, 0, 100, 2, "a", "n2", ""), (10, 3660, 3700, 4, "a", "n1", ""),
         (20, 100, 150, 1, "g", "n2", ""), (100, 100, 110, 1, "a", "n1", ""))  # fmt: skip
GROW = "n:+1 price=900 g:+1 price=100"


@pytest.fixture
def finished(results: Path) -> Path:
    """A finished comparison of a machine of two nodes with one of four, with two runs of each."""
    folder = results / "r"
    members = []
    for label, replica in [(label, replica) for replica in (1, 2) for label in ("now", "plus")]:
        run = folder / f"{label}-{replica}"
        if label == "now":
            a_run(run, LATER, ((3, 10.0, 3660.0, "resources", ""),), BEFORE)
        else:
            a_run(run)
        clock = {"scheduler_seconds": 2.0 if label == "now" else 3.0, "virtual_seconds": 100.0, "charged_seconds": 0.0}
        content = read_json(run / "metrics.json")
        content["validity"]["event_clock"] = clock
        write_json(run / "metrics.json", content)
        members.append({"label": label, "replica": replica, "folder": run.name})
    inputs = {"now GROW": "", "plus GROW": GROW, "CONFIGS": "backfill", "REPLICAS": "2"}
    write_json(folder / "experiment.json", {"inputs": inputs, "knobs": {}, "comparison": members, "trace": {"path": None}})
    return folder


def conclusion(folder: Path) -> str:
    stream = io.StringIO()
    conclude(folder, members_of(RunFolder(folder).experiment), Screen(stream))
    return stream.getvalue()


def test_what_more_nodes_bring(finished: Path) -> None:
    said = " ".join(conclusion(finished).split())
    growth = RunFolder(finished).comparison["growth"]
    now, plus = growth["machines"]
    assert (growth["baseline"], growth["common_jobs"]) == ("now", 5)
    assert (now["nodes"], plus["nodes"], plus["grow"], now["grow"]) == (2, 4, GROW, "")
    # Job 3 waited for 3650 s instead of 50 s, job 4 for 80 s instead of 60 s.
    assert plus["hours_avoided"] == pytest.approx(3620 / 3600)
    assert plus["cost"] == 1000 and plus["cost_of_an_hour"] == pytest.approx(1000 * 3600 / 3620)
    assert now["cost"] is None and now["hours_avoided"] == 0
    assert [one["names"] for one in plus["classes"] if one["new"]] == ["n3", "g1"]
    assert not any(one["new"] for one in now["classes"])
    assert "plus: 2 nodes more (n3, g1): mean wait 22 s instead of 12 min" in said
    assert (
        "plus: n3: processors used for 40.0 % of the time, nodes idle 60.0 % (50.0 %: jobs that could use them waited: a limit"
        in said
    )
    assert "of its QOS (QOSMaxJobsPerUserLimit)" in said
    assert "plus: g1: GPUs used for 10.0 % of the time, nodes idle 80.0 %" in said
    assert "plus: the new nodes cost 1,000 while jobs were submitted: 994 for each hour of waiting avoided (1.01 in all" in said
    assert "plus: slurmctld computed 1.5 times as long as on the machine as it is" in said and "CHARGE=yes counts it" in said
    assert all(pair["verdict"] for pair in [RunFolder(finished).comparison["metrics"]["wait_mean"]["pairs"][0]["these_jobs"]])


def test_the_page_has_it(finished: Path) -> None:
    conclusion(finished)
    page = (finished / "report.html").read_text()
    for words in ("More nodes", "g1 (new)", "Why new nodes were idle", "QOSMaxJobsPerUserLimit", "Cost while jobs were submitted"):
        assert words in page
    assert "emulated machines of 2 nodes with 8 processors; 4 nodes with 16 processors" in page


def test_each_cell_has_its_heading(finished: Path) -> None:
    conclusion(finished)
    tables = [part.table for part in growth_page.section(RunFolder(finished).comparison["growth"]).parts if part.table is not None]
    assert len(tables) == 5
    assert all(len(row) == len(table.headings) for table in tables for row in table.rows)


def test_a_price_over_a_life_time_counts_for_the_time_of_submissions(finished: Path) -> None:
    content = read_json(finished / "experiment.json")
    content["inputs"]["plus GROW"] = "n:+1 price=900/200s g:+1 price=100/100s"
    write_json(finished / "experiment.json", content)
    conclusion(finished)
    assert RunFolder(finished).comparison["growth"]["machines"][1]["cost"] == pytest.approx(900 / 2 + 100)


def test_no_cost_where_a_price_is_missing_or_no_waiting_is_avoided(finished: Path) -> None:
    content = read_json(finished / "experiment.json")
    content["inputs"]["plus GROW"] = "n:+1 price=900 g:+1"
    write_json(finished / "experiment.json", content)
    assert "new nodes cost" not in conclusion(finished)
    machine = RunFolder(finished).comparison["growth"]["machines"][1]
    assert machine["cost"] is None and machine["cost_of_an_hour"] is None


def test_a_text_that_is_no_growth_is_refused(finished: Path) -> None:
    content = read_json(finished / "experiment.json")
    content["inputs"]["plus GROW"] = "much"
    write_json(finished / "experiment.json", content)
    with pytest.raises(WrongUse, match=r"GROW 'much'"):
        conclusion(finished)


def test_runs_of_several_machines_are_no_comparison_of_configurations(finished: Path) -> None:
    content = read_json(finished / "experiment.json")
    content["inputs"] = {"CONFIGS": "backfill"}
    write_json(finished / "experiment.json", content)
    with pytest.raises(WrongUse, match="was measured on another machine"):
        conclusion(finished)
