"""mirage.site.associations: the site's users, accounts and QOS, and the file by which the cluster gets them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sacctmgr_reader
from captures import ASSOC, QOS, capture, table
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.experiment import configuration
from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.prepare import Prepared, source
from mirage.knobs import resolve
from mirage.knobs.knobs import Knobs
from mirage.site import associations, site_conf
from mirage.site.archive import opened
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.accounting import Present, Wanted, qos_of


def resolved(path: Path, **more: str) -> Knobs:
    given = {"SITE": str(path), "SPEED": "event", **more}
    return resolve.resolve({resolve.GIVEN: " ".join(given), **given}, "experiment")


def wanted(path: Path) -> Wanted:
    read = associations.read(opened(path), ["gres/gpu"])
    assert read is not None
    return Wanted("m", "slurm-m", [], qos=qos_of(read.qos, "qos"), site=read.associations)


def test_the_tree_of_accounts_with_shares_and_limits(tmp_path: Path) -> None:
    assert wanted(capture(tmp_path)).site_file().splitlines() == [
        "Cluster - 'm'",
        "Parent - 'root'",
        "Account - 'a_0':Fairshare='50':GrpJobs='8':GrpTRES='cpu=64':QOS='high,normal'",
        "Parent - 'root'",
        "Account - 'a_2':Fairshare='1':QOS='normal'",
        "Parent - 'a_0'",
        "Account - 'a_1':Fairshare='3':MaxWallDurationPerJob='1-00:00:00':QOS='high,normal':DefaultQOS='normal'",
        "Parent - 'a_1'",
        "User - 'u2':DefaultAccount='a_1':Fairshare='1':MaxTRESPerJob='cpu=32':MaxWallDurationPerJob='1-00:00:00':MaxJobs='4'"
        ":QOS='high,normal':DefaultQOS='high'",
        "Parent - 'a_1'",
        "User - 'u3':Partition='gpu':DefaultAccount='a_1':Fairshare='parent':QOS='normal'",
    ]


def test_slurm_user_and_an_account_of_its_own_are_left_out(tmp_path: Path) -> None:
    rows = "".join(f"s_1\t{account}\t{user}\t\t{parent}" + "\t1" * 2 + "\t" * 8 + "\tnormal\t\n" for account, user, parent in (
        ("a_3", "", "root"), ("a_3", "u_s", ""), ("a_1", "u_s", ""), ("a_4", "", "root"),
    ))  # fmt: skip
    parts = {"sacctmgr/assoc.txt": ASSOC + rows, "scontrol/config.txt": "SlurmUser               = u_s(999)\n"}
    made = wanted(capture(tmp_path, parts)).site
    assert {one["account"] for one in made} == {"root", "a_0", "a_1", "a_2", "a_4"}
    assert {one["user"] for one in made} == {"", "u2", "u3"}


@pytest.mark.parametrize("line", ["SlurmUse", "\x02", "a b = c", "= c"])
def test_a_torn_line_of_the_settings_is_refused(tmp_path: Path, line: str) -> None:
    parts: dict[str, str | None] = {"scontrol/config.txt": f"SlurmctldPort = 1\nSlurmctldHost[0] = a\n{line}\n"}
    with pytest.raises(WrongUse, match=r"scontrol/config\.txt:3: .* is not KEY = VALUE"):
        wanted(capture(tmp_path, parts))


def test_limits_that_could_only_refuse_and_what_is_not_counted_are_left_out(tmp_path: Path) -> None:
    qos = QOS.replace("gres/gpu=6", "gres/gpu=6,gres/nvme=2")
    site = site_conf.read(capture(tmp_path, {"sacctmgr/qos.txt": qos}))
    assert site.accounts is not None
    left_out = "\n".join(map(str, site.left_out))
    assert "limits of submission (grpsubmit): 1: the jobs of the log were accepted" in left_out
    assert "GrpTRES of gres/nvme: 1: the cluster does not count this resource" in left_out
    assert "Submit" not in str(site.accounts.associations) + str(site.accounts.qos)


def test_qos_come_after_those_that_they_preempt(tmp_path: Path) -> None:
    rows = [("low", "", 1), ("top", "mid", 1), ("mid", "low,mid", 1)]
    read = associations.read(opened(capture(tmp_path, {"sacctmgr/qos.txt": table(("Name", "Preempt", "Priority"), *rows)})), [])
    assert read is not None and [one["name"] for one in read.qos] == ["low", "mid", "top"]


def test_commands_make_the_qos_before_the_associations_and_nothing_twice(tmp_path: Path) -> None:
    want = wanted(capture(tmp_path))
    commands = [" ".join(words[:3]) for words in want.commands(Present())]
    assert commands[:2] == ["add qos name=gpus", "add qos name=high"]
    assert commands[2:5] == ["modify cluster where", "add account name=default", "add user name=slurm-m"]
    assert commands[5].startswith("load Cluster - 'm'") and len(commands) == 6
    high = list(want.commands(Present()))[1]
    assert "GraceTime=30" in high and "Preempt=normal" in high and "UsageFactor=2.000000" in high
    made = frozenset({("slurm-m", "default"), ("u2", "a_1"), ("u3", "a_1")})
    present = Present(
        {"default": 1, "a_0": 50, "a_1": 3, "a_2": 1}, made, frozenset({"normal", "high", "gpus"}), want.qos, loaded=want.digest
    )
    assert list(want.commands(present)) == []
    assert [words[0] for words in want.commands(replace(present, loaded="other"))] == ["load"]


def test_an_association_that_is_gone_is_made_in_its_account(tmp_path: Path) -> None:
    want = wanted(capture(tmp_path))
    gone = Wanted("m", "slurm-m", [], qos=want.qos, site=want.site, users=[("u2", "a_1"), ("u4", "a_2"), ("u5", "a_9")])
    last = list(gone.commands(Present()))
    assert [words[2] for words in last if words[:2] == ["add", "account"]] == ["name=default,a_9"]
    assert last[-1][1].splitlines()[1:] == [
        "Parent - 'a_2'", "User - 'u4':DefaultAccount='a_2':Fairshare='1'",
        "Parent - 'a_9'", "User - 'u5':DefaultAccount='a_9':Fairshare='1'",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ASSOC + ASSOC.splitlines()[5].replace("a_1", "a_9") + "\n", r"assoc\.txt:9: user u_b is in the account a_9, which has no"),
        (ASSOC.replace("u_c", "u'c"), r"assoc\.txt:7: \"u'c\" is no name"),
        (ASSOC.replace("Share", "Portion"), r"assoc\.txt:1: has no column share, as 22\.05\.8 prints it"),
    ],
)
def test_wrong_associations(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        site_conf.read(capture(tmp_path, {"sacctmgr/assoc.txt": text}))


def test_other_clusters_of_the_same_database_are_left_out(tmp_path: Path) -> None:
    other = ASSOC + ASSOC.splitlines()[5].replace("s_1", "s_2").replace("u_b", "u_a") + "\n"
    assert associations.numbers(opened(capture(tmp_path, {"sacctmgr/assoc.txt": other}))) == {"root": 1, "u_b": 2, "u_c": 3}


def test_what_needs_users_accounts_and_qos_passes_through_with_accounting(tmp_path: Path) -> None:
    path = capture(tmp_path)
    site = site_conf.read(path)
    assert site.settings["PreemptType"] == "preempt/qos" and site.settings["PreemptMode"] == "REQUEUE"
    # slurmctld does not start with a QOS that the database does not have yet.
    assert site.of_accounts == {"gpu": {"QOS": "gpus", "AllowAccounts": "a_1"}} and "QOS" not in site.partitions[1]
    assert any(str(item).startswith("PartitionName=cpu: AllowGroups=g_1: the host does not have") for item in site.left_out)
    without = site_conf.read(path, "no")
    assert without.accounts is None and not {"PreemptType", "PreemptMode"} & without.settings.keys() and not without.of_accounts


def test_jobs_of_a_plan_have_the_sites_accounts_users_and_qos(tmp_path: Path) -> None:
    knobs = resolved(capture(tmp_path))
    trace = source(knobs.workload, knobs.nodes.machine).trace
    plan = Prepared.make(knobs, trace, knobs.jobs.shrinks[0]).plan("r")
    assert {(row.id, row.owner, row.account, row.qos) for row in plan} == {
        (1, "u2", "a_1", "normal"), (2, "u4", "a_2", "normal"), (3, "u2", "a_1", "high"),
    }  # fmt: skip
    variables = cluster_variables(knobs)
    assert variables["mirage_accounting"] == "yes"
    assert [one["name"] for one in variables["slurm_controller_qos"]] == ["gpus", "high"]
    assert len(variables["slurm_controller_site_accounts"]) == 6
    # A slurmd that reads slurmctld's own file would set processors aside itself.
    assert variables["mirage_steps"] == "no"


def test_another_configuration_keeps_the_sites_qos_besides_its_own(tmp_path: Path) -> None:
    config = configuration.of(resolved(capture(tmp_path), CONFIG="fifo").scheduler)
    assert [one["name"] for one in config.qos] == ["gpus", "high"] and config.accounting


def test_an_archive_without_tables_has_no_accounts(tmp_path: Path) -> None:
    site = site_conf.read(capture(tmp_path, {"sacctmgr/qos.txt": None}, failed={"sacctmgr/qos.txt": "error: no"}))
    assert site.accounts is None and site.has_users and "PreemptType" not in site.settings


@settings(max_examples=30, deadline=None)
@given(parents=st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_each_account_comes_once_and_after_its_parent(tmp_path_factory: pytest.TempPathFactory, parents: list[int]) -> None:
    rows = [("s_1", f"a_{number}", "", f"a_{parent}", 1, "normal") for number, parent in enumerate(parents, 1)]
    text = table(("Cluster", "Account", "User", "ParentName", "Share", "QOS"), *rows)
    read = associations.read(opened(capture(tmp_path_factory.mktemp("a"), {"sacctmgr/assoc.txt": text})), [])
    assert read is not None
    placed = ["root"]
    for one in read.associations:
        assert one["parent"] in placed
        placed.append(one["account"])
    assert sorted(placed) == sorted(["root", *(row[1] for row in rows)])


WORDS = (
    "x'y",
    'x"y',
    "x:y",
    "x#y",
    "x\\",
    "x\\y",
    "x\u2028y",
    "x\ry",
    "x\x1by",
    "X",
    "x y",
    "x=y",
    "$(id)",
    "{{ 1 }}",
    "x;y",
    "\u00e4",
)
"""Values of a table of sacctmgr, whose fields are separated by tabs and lines."""


def told(path: Path) -> list[tuple[str, str, dict[str, str]]]:
    """What sacctmgr reads of the file that the associations of an archive become."""
    site = site_conf.read(path)
    assert site.accounts is not None
    return sacctmgr_reader.read(Wanted("m", "slurm-m", [], site=site.accounts.associations).site_file())


@pytest.mark.parametrize("word", WORDS)
def test_a_field_of_an_association_is_one_value_for_sacctmgr_or_refused_with_its_line(tmp_path: Path, word: str) -> None:
    headings, *rows = (line.split("\t") for line in ASSOC.splitlines())
    shape = [(kind, name, list(options)) for kind, name, options in told(capture(tmp_path))]
    kept = 0
    for place, heading in enumerate(headings):
        if heading in ("Cluster", "ID", "Account", "User", "Partition", "ParentName"):
            continue
        changed = [[*row[:place], word, *row[place + 1 :]] if number == 4 else row for number, row in enumerate(rows)]
        try:
            found = told(capture(tmp_path, {"sacctmgr/assoc.txt": table(tuple(headings), *map(tuple, changed))}))
        except WrongUse as error:
            assert "assoc.txt:6: account a_1: " in str(error) and str(error).isprintable()
            continue
        assert [(kind, name) for kind, name, _ in found] == [(kind, name) for kind, name, _ in shape]
        values = [value for _, _, options in found for value in options.values()]
        kept += word.lower() in values
    assert kept or "'" in word or '"' in word or not word.isprintable()


@pytest.mark.parametrize("word", WORDS)
def test_a_name_is_one_name_for_sacctmgr_or_refused_with_its_line(tmp_path: Path, word: str) -> None:
    text = ASSOC.replace("\ta_2\t", f"\t{word}\t")
    try:
        found = told(capture(tmp_path, {"sacctmgr/assoc.txt": text}))
    except WrongUse as error:
        assert "assoc.txt:8: " in str(error) and str(error).isprintable()
        return
    assert ("Account", word) in [(kind, name) for kind, name, _ in found]


@pytest.mark.parametrize("word", WORDS)
def test_a_field_of_a_qos_is_one_word_for_sacctmgr_or_refused_with_its_line(tmp_path: Path, word: str) -> None:
    text = QOS.replace("DenyOnLimit", word)
    try:
        site = site_conf.read(capture(tmp_path, {"sacctmgr/qos.txt": text}))
    except WrongUse as error:
        assert "sacctmgr/qos.txt:3: qos 1: " in str(error) or "sacctmgr/qos.txt:3: qos high: " in str(error)
        return
    assert site.accounts is not None
    assert {"Flags": word}.items() <= next(one for one in site.accounts.qos if one["name"] == "high").items()
