"""mirage.site.sacctmgr_script: users, accounts and QOS of a script of sacctmgr beside slurm.conf."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.experiment.prepare import Prepared, source
from mirage.knobs import resolve
from mirage.site import sacctmgr_script, site_conf
from mirage.site.associations import SiteAccounts
from mirage.site.conf_lines import ConfFiles
from mirage.site.sacctmgr_script import SCRIPT, read
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.accounting import Wanted, qos_of

CONF = """ClusterName=ub
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
NodeName=n[1-4] CPUs=8
PartitionName=main Nodes=ALL Default=YES AllowQOS=long,normal QOS=long
"""
MADE = """# QOS
remove QOS where Name=normal
add QOS Name=long Priority=0 MaxSubmitJobsPerUser=10000
add QOS Name=High Priority=200 MaxTRESPerUser=cpu=8,gres/nvme=1 Preempt=long

add cluster Name=ub Fairshare=1 QOS=long,High
add account name=lab Description=x Fairshare=100
create account Name=sub Parent=lab GrpTRES=cpu=16
add user name=zoe DefaultAccount=lab AdminLevel=Administrator
add user Name=ann Account=sub,lab Fairshare=parent
modify account name=lab set qos=long
modify user where name=ann account=sub set qos="high,long" MaxJobs=4 DefaultQOS=high
list associations format=Account tree withd
quit
"""


def made(folder: Path, text: str) -> SiteAccounts:
    (folder / "slurm.conf").write_text(CONF)
    (folder / SCRIPT).write_text(text)
    return read(ConfFiles(folder / "slurm.conf"), ["gres/gpu"])


def test_a_script(tmp_path: Path) -> None:
    accounts = made(tmp_path, MADE)
    assert Wanted("m", "slurm-m", [], qos=qos_of(accounts.qos, "qos"), site=accounts.associations).site_file().splitlines() == [
        "Cluster - 'm'",
        "Parent - 'root'",
        "Account - 'lab':Fairshare='100':QOS='long'",
        "Parent - 'lab'",
        "Account - 'sub':GrpTRES='cpu=16'",
        "Parent - 'lab'",
        "User - 'u2':DefaultAccount='lab'",
        "Parent - 'sub'",
        "User - 'u1':DefaultAccount='sub':Fairshare='parent':MaxJobs='4':QOS='high,long':DefaultQOS='high'",
        "Parent - 'lab'",
        "User - 'u1':DefaultAccount='sub':Fairshare='parent'",
    ]
    assert accounts.qos == [{"name": "long"}, {"name": "high", "Priority": "200", "MaxTRESPerUser": "cpu=8", "Preempt": "long"}]
    assert accounts.numbers == {"ann": 1, "zoe": 2} and accounts.defaults == {"zoe": "lab", "ann": "sub"}
    left_out = {what for what, _ in accounts.left_out}
    assert left_out == {"limits of submission (maxsubmitpu)", "MaxTRESPerUser of gres/nvme"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add user Name=ann Account=lab\n", "line 1: has no account that has been added before"),
        ("\nadd account Name=a Parent=b\n", "line 2: the parent has not been added before"),
        ("add qos Priority=3\n", "line 1: has no Name"),
        ("add qos name = a\n", "line 1: has a = without the name"),
        ("delete user\n", "line 1: has no condition"),
        ("modify user name=ann\n", "line 1: has no set"),
        ("add qos Name=a.b\n", "line 1: 'a.b' is no name of a QOS"),
        ("add account Name=it's\n", "line 1: .* is no name"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=message) as error:
        made(tmp_path, text)
    assert error.value.parameter == "slurm_conf"


def test_what_is_not_known_is_counted(tmp_path: Path) -> None:
    accounts = made(
        tmp_path,
        "add account Name=a Frob=1\nadd reservation Name=r\nmodify account set qos+=x\ndelete account Name=b\n"
        "sacctmgr -i add user x\nmodify account where organization=o set qos=x\nmodify account set x_1=3\n",
    )
    assert {what: count for (what, _), count in accounts.left_out.items()} == {
        "frob of accounts": 1, "add reservation": 1, "+qos of accounts": 1, "the command sacctmgr": 1,
        "modify account where organization": 1, "an option of accounts": 1,
    }  # fmt: skip


LAB = "add account lab,sub\nadd user ann,bob Account=lab,sub\n"


@pytest.mark.parametrize(
    ("command", "shares"),
    [
        ("modify user ann set fairshare=7", {"lab ann": "7", "sub ann": "7", "lab bob": "", "sub bob": ""}),
        ("modify user set fairshare=7 where name=ann", {"lab ann": "7", "sub ann": "7", "lab bob": "", "sub bob": ""}),
        ("modify user where user=ann acct=lab set fairshare=7", {"lab ann": "7", "lab bob": "", "sub ann": "", "sub bob": ""}),
        ("modify user user01 set fairshare=7", {"lab ann": "", "lab bob": "", "sub ann": "", "sub bob": ""}),
        ("modify user set fairshare=7", {"lab ann": "7", "lab bob": "7", "sub ann": "7", "sub bob": "7"}),
        ("delete user ann", {"lab bob": "", "sub bob": ""}),
        ("delete user ann account=lab", {"sub ann": "", "lab bob": "", "sub bob": ""}),
        ("delete user where account=lab", {"sub ann": "", "sub bob": ""}),
        ("remove account lab", {"sub ann": "", "sub bob": ""}),
        ("add user eve account=lab partition=p,q", {"lab ann": "", "lab bob": "", "lab eve": "", "sub ann": "", "sub bob": ""}),
        ("add user eve account=lab defaultaccount=sub", {**dict.fromkeys(("lab eve", "sub eve", "lab ann", "lab bob"), ""),
                                                        "sub ann": "", "sub bob": ""}),
    ],
)  # fmt: skip
def test_commands_are_about_those_that_they_name(command: str, shares: dict[str, str], tmp_path: Path) -> None:
    accounts = made(tmp_path, LAB + command)
    names = {f"u{number}": name for name, number in accounts.numbers.items()}
    own = [one for one in accounts.associations if one["user"]]
    assert {f"{one['account']} {names[one['user']]}": one["words"].get("Fairshare", "") for one in own} == shares
    assert not accounts.left_out and all(f"{account} {name}" in shares for name, account in accounts.defaults.items())
    assert accounts.defaults.keys() == {*names.values()}


def test_an_account_with_another_parent_and_below_a_removed_one(tmp_path: Path) -> None:
    accounts = made(tmp_path, LAB + "modify account lab set parent=sub\n")
    assert [(one["account"], one["parent"]) for one in accounts.associations if not one["user"]] == [
        ("root", ""), ("sub", "root"), ("lab", "sub"),
    ]  # fmt: skip
    accounts = made(tmp_path, LAB + "modify account lab set parent=sub\ndelete account sub\n")
    assert [one["account"] for one in accounts.associations] == ["root"] and not accounts.defaults


@pytest.mark.parametrize(
    "text",
    [
        "add account " + ",".join(f"a{k}" for k in range(1000)) + "\nadd user " + ",".join(f"u{k}" for k in range(1000))
        + " account=" + ",".join(f"a{k}" for k in range(1000)),
        "add qos a,b,c,d\n" + "modify qos set priority=1\n" * 400,
        "add account a,b,c,d\n" + "delete account x\n" * 400,
    ],
)  # fmt: skip
def test_a_script_is_bounded(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sacctmgr_script, "MOST_CHANGES", 1000)
    with pytest.raises(WrongUse, match="more than"):
        made(tmp_path, text)


def test_a_long_chain_of_accounts(tmp_path: Path) -> None:
    """The order takes no time that grows with the square of their number."""
    chain = "".join(f"add account a{k} parent={f'a{k - 1}' if k else 'root'}\n" for k in range(3000))
    accounts = made(tmp_path, chain).associations
    assert [one["account"] for one in accounts] == ["root", *(f"a{k}" for k in range(3000))]


def test_jobs_have_the_accounts_of_their_users(tmp_path: Path) -> None:
    made(tmp_path, MADE)
    line = "-dt {} -e submit_batch_job | -sim-walltime 60 --uid={} -n 1 -t 5 -q {} a.job\n"
    jobs = (("zoe", "high"), ("bob", "long"), ("ann", "long"))
    (tmp_path / "w.events").write_text("".join(line.format(place, *job) for place, job in enumerate(jobs)))
    given = {"SLURM_CONF": str(tmp_path / "slurm.conf"), "TRACE": str(tmp_path / "w.events"), "SPEED": "event"}
    knobs = resolve.resolve({resolve.GIVEN: " ".join(given), **given}, "experiment")
    prepared = Prepared.make(knobs, source(knobs.workload, knobs.nodes.machine).trace, knobs.jobs.shrinks[0])
    rows = [(row.owner, row.account, row.qos) for row in prepared.plan("r")]
    assert rows == [("u2", "lab", "high"), ("u3", "u3", "long"), ("u1", "sub", "long")]
    assert [(event.action, event.target, event.argument) for event in prepared.events] == [
        ("set", "partition main", "AllowQOS=long,normal QOS=long")
    ]


def test_without_accounting_the_script_is_not_read(tmp_path: Path) -> None:
    made(tmp_path, MADE)
    assert site_conf.read(tmp_path / "slurm.conf", "no").accounts is None


word = st.sampled_from([
    "add", "modify", "remove", "account", "user", "qos", "cluster", "set", "where", "name=a", "name=b", "Name=c,a", "account=a",
    "parent=b", "qos=c", "QOS=-1", "fairshare=parent", "defaultaccount=b", "maxjobs=4", "grptres=cpu=2,x=3", "x", "=", '"', "name=",
    "\x00", "é=1",
])  # fmt: skip


@given(st.lists(st.lists(word, max_size=7).map(" ".join), max_size=12))
@settings(deadline=None)
def test_any_script_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    try:
        made(tmp_path_factory.mktemp("s"), "\n".join(lines))
    except WrongUse as error:
        assert "\n" not in error.message
