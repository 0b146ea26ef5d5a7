"""What accounting needs: sacctmgr's words for what is missing, and what the database and slurmdbd read."""

from __future__ import annotations

import pwd
import shutil
import stat
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from modules import Caller

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.collection.archive import of_manager
from slurm_mirage.jobs.plan import PlanRow, write_plan
from slurm_mirage.rm.api import ResourceManagerError
from slurm_mirage.rm.slurm import accounting
from slurm_mirage.rm.slurm.account_commands import AccountCommands
from slurm_mirage.rm.slurm.accounting import Present, Wanted, parse_associations, qos_of, shares_of
from slurm_mirage.rm.slurm.database import Database, check_release

# As sacctmgr of Slurm 22.05 shows it.
ASSOCIATIONS = """root||1|normal,urgent
root|root|1|normal
default||1|normal
default|slurm-a|1|normal
u12||5|normal
u7||1|normal
u7|somebody|1|normal
"""


def test_what_sacctmgr_shows() -> None:
    present = parse_associations(ASSOCIATIONS, {"normal": {}})
    shares = {"default": 1, "u12": 5, "u7": 1}
    associated = frozenset({("root", "root"), ("slurm-a", "default"), ("somebody", "u7")})
    assert present == Present(shares, associated, frozenset({"normal", "urgent"}), {"normal": {}})


def test_a_new_cluster_gets_all_of_it() -> None:
    qos = {"urgent": {"Priority": "100", "MaxJobsPU": "2"}}
    wanted = Wanted("a", "slurm-a", ["u7", "", "u12", "u7"], {"u12": 5, "u99": 3}, qos)
    assert [" ".join(words) for words in wanted.commands(Present())] == [
        "add qos name=urgent MaxJobsPU=2 Priority=100",
        "modify cluster where name=a set qos=normal,urgent",
        "add account name=default,u7 cluster=a parent=root fairshare=1",
        "add account name=u12 cluster=a parent=root fairshare=5",
        "add user name=slurm-a cluster=a fairshare=1 account=default defaultaccount=default",
        "add user name=slurm-a cluster=a fairshare=1 account=u7,u12",
    ]


def test_what_is_there_is_not_made_again_and_what_differs_is_changed() -> None:
    present = parse_associations(ASSOCIATIONS, {"urgent": {"Priority": "100", "MaxWall": "60"}})
    urgent = {"urgent": {"Priority": "100", "MaxWall": "60"}}
    assert list(Wanted("a", "slurm-a", [], {}, urgent).commands(present)) == []
    other = Wanted("a", "slurm-a", ["u12", "u7"], {"u12": 5, "u7": 2}, {"urgent": {"Priority": "50"}})
    assert [" ".join(words) for words in other.commands(present)] == [
        "modify qos where name=urgent set MaxWall=-1 Priority=50",
        "modify account where name=u7 cluster=a set fairshare=2",
        "add user name=slurm-a cluster=a fairshare=1 account=u12,u7",
    ]


def test_users_are_added_by_one_file_in_accounts_of_their_own() -> None:
    wanted = Wanted("a", "slurm-a", [], {"u12": 5}, users=[("somebody", "u7"), ("u12", "u12"), ("u3", "u3")])
    assert [list(words) for words in wanted.commands(parse_associations(ASSOCIATIONS, {}))] == [
        ["add", "account", "name=u3", "cluster=a", "parent=root", "fairshare=1"],
        [
            "load",
            "Cluster - 'a'\n"
            "Parent - 'u12'\nUser - 'u12':DefaultAccount='u12':Fairshare='1'\n"
            "Parent - 'u3'\nUser - 'u3':DefaultAccount='u3':Fairshare='1'\n",
        ],
    ]


def test_whom_a_plan_asks_for(tmp_path: Path) -> None:
    row = PlanRow(0, 7, 0.0, 1, None, 1.0, 1, None, "", "r.7", account="u12", owner="u12")
    other = replace(row, index=1, id=8, name="r.8", account="u9", owner="")
    write_plan(tmp_path / "plan.csv", [row, other])
    given = {
        "plan": str(tmp_path / "plan.csv"),
        "users": [5],
        "shares": {},
        "qos": [],
        "site": {},
        "cluster": "a",
        "user": "slurm-a",
    }
    wanted = accounting.wanted_of(given)
    assert (list(wanted.accounts), list(wanted.users)) == (["u9"], [("u12", "u12"), ("u5", "u5")])
    own = {("slurm-a", "default"), ("slurm-a", "u9")}
    assert wanted.associations() == own | {("u12", "u12"), ("u5", "u5")}


ANSWERS = r"""#!/bin/sh
case "$*" in
*"show qos"*) echo normal ;;
*"show associations"*) printf 'root||1|normal\ndefault||1|normal\ndefault|slurm-a|1|normal\nu5||1|normal\n' ;;
*load*) for file in "$@"; do :; done; cp "$file" "${0%/*}/loaded" ;;
*) echo "no: $*" >&2; exit 1 ;;
esac
"""
KNOWN = """#!/bin/sh
echo 'ClusterName=a Account=default UserName=slurm-a(998) Partition= ID=3'
test -e "${0%/*}/loaded" && echo 'ClusterName=a Account=u5 UserName=u5(1900000005) Partition= ID=4'
exit 0
"""


def test_users_are_added_by_a_file_that_is_gone_afterwards(call: Caller, tmp_path: Path) -> None:
    for name, script in (("sacctmgr", ANSWERS), ("scontrol", KNOWN)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "etc").mkdir()
    told = call("slurm_accounts", directory=str(tmp_path), bin=str(tmp_path), cluster="a", user="slurm-a", users=[5], wait=0)
    assert told["changed"] is True
    assert (tmp_path / "loaded").read_text() == "Cluster - 'a'\nParent - 'u5'\nUser - 'u5':DefaultAccount='u5':Fairshare='1'\n"
    assert [path.name for path in (tmp_path / "etc").iterdir()] == ["qos.json"]


def test_a_user_whom_slurmctld_does_not_learn_of_is_reported(call: Caller, tmp_path: Path) -> None:
    for name, script in (("sacctmgr", ANSWERS), ("scontrol", KNOWN.replace("1900000005", "4294967294").replace("u5(", "u6("))):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "etc").mkdir()
    told = call("slurm_accounts", directory=str(tmp_path), bin=str(tmp_path), cluster="a", user="slurm-a", users=[5], wait=0)
    assert told["msg"].startswith("slurmctld does not know user u5 in account u5; see ")


@given(st.sets(st.integers(0, 5000), max_size=1800))
def test_each_account_is_made_once_in_few_calls(users: set[int]) -> None:
    names = [accounting.account_of(user) for user in sorted(users)]
    commands = list(Wanted("a", "slurm-a", names).commands(Present()))
    for kind, word in (("account", 2), ("user", 5)):
        made = Counter(name for words in commands if words[1] == kind for name in words[word].partition("=")[2].split(","))
        assert made == Counter([accounting.DEFAULT_ACCOUNT, *names])
    assert len(commands) == -(-(len(names) + 1) // accounting.CHUNK) + 1 + -(-len(names) // accounting.CHUNK)
    assert sum("defaultaccount=default" in words for words in commands) == 1


def test_a_user_who_is_not_known_has_no_account() -> None:
    assert [accounting.account_of(user) for user in (-1, 0, 12)] == ["", "u0", "u12"]


@pytest.mark.parametrize(
    ("qos", "words"),
    [
        ({}, "qos is not a list"),
        (["urgent"], "qos is not a list"),
        ([{"Priority": 1}], "qos 1: name ''"),
        ([{"name": "Urgent"}], "qos 1: name 'Urgent'"),
        ([{"name": "a"}, {"name": "a"}], "qos 2: name 'a'"),
        ([{"name": "a", "Max Wall": 1}], "qos a: Max Wall=1"),
        ([{"name": "a", "GrpTRES": "cpu=1 node=2"}], "qos a: GrpTRES=cpu=1 node=2"),
    ],
)
def test_wrong_qos(qos: Any, words: str) -> None:
    with pytest.raises(WrongUse, match=f"^x: {words}"):
        qos_of(qos, "x")


def test_words_of_qos() -> None:
    entries = [{"name": "a", "GrpTRES": {"cpu": 10, "node": 2}, "Flags": ["DenyOnLimit", "NoReserve"], "Priority": 3}]
    assert qos_of(entries, "x") == {"a": {"GrpTRES": "cpu=10,node=2", "Flags": "DenyOnLimit,NoReserve", "Priority": "3"}}


@pytest.mark.parametrize("shares", [[], {"u12": 1}, {12: -1}, {12: "many"}, {12: True}])
def test_wrong_shares(shares: Any) -> None:
    with pytest.raises(WrongUse, match=r"^x: shares"):
        shares_of(shares, "x")


def test_shares_by_number_as_yaml_and_json_have_them() -> None:
    assert shares_of({12: 5, "7": "2"}, "x") == {"u12": 5, "u7": 2}


def database(directory: Path) -> Database:
    return Database(directory, "slurm-a", "127.0.0.1", "localhost", 16999, 64)


def lines(text: str, separator: str) -> dict[str, str]:
    """The settings of a file."""
    words = (line.partition(separator) for line in text.splitlines() if separator in line and not line.startswith("#"))
    return {key: value for key, _, value in words}


def test_the_server_is_the_instances_own() -> None:
    options = lines(database(Path("/i")).mariadb_cnf(), " = ")
    assert options["skip_networking"] == "1"
    assert {options[name] for name in ("datadir", "socket", "pid_file", "log_error", "tmpdir")} == {
        "/i/database", "/i/run/private/mariadb.socket", "/i/run/mariadbd.pid", "/i/log/mariadbd.log", "/i/run",
    }  # fmt: skip
    assert options["innodb_buffer_pool_size"] == "64M"


@pytest.mark.parametrize(("speed", "message", "tcp"), [(0.5, 60, 2), (1, 60, 2), (50, 3000, 100), (5000, 65533, 10000)])
def test_slurmdbds_time_outs_follow_the_speed(speed: float, message: int, tcp: int) -> None:
    settings = lines(database(Path("/i")).slurmdbd_conf(speed, "22.05.8"), "=")
    assert (settings["MessageTimeout"], settings["TCPTimeout"]) == (str(message), str(tcp))
    assert "StoragePass" not in settings
    assert (settings["DbdPort"], settings["StorageUser"], settings["SlurmUser"]) == ("16999", "slurm-a", "slurm-a")


@pytest.mark.parametrize(
    ("version", "knows"), [("16.05.6", False), ("20.02.7", False), ("20.11.9", True), ("26.05.3", True), ("", True)]
)
def test_slurmdbd_is_told_no_word_that_its_release_does_not_know(version: str, knows: bool) -> None:
    assert ("CommunicationParameters" in lines(database(Path("/i")).slurmdbd_conf(1, version), "=")) == knows


@pytest.mark.parametrize("version", ["", "20.02.7", "26.05.3"])
def test_releases_whose_slurmdbd_works(version: str) -> None:
    check_release(version)


def test_the_module_refuses_accounting_with_a_slurmdbd_that_does_not_work(call: Caller, tmp_path: Path) -> None:
    params = {"directory": str(tmp_path), "bin": str(tmp_path / "none"), "front_ends": 0, "version": "19.05.8"}
    assert call("slurm_release_info", **params)["release"] == "19.05.8"
    message = call("slurm_release_info", **params, accounting=True)["msg"]
    assert message.startswith("wrong use: ACCOUNTING, CONFIG: with Slurm 19.05.8 ") and "20.02 or later" in message


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "etc").mkdir()
    return {"directory": str(tmp_path), "user": pwd.getpwuid(tmp_path.stat().st_uid).pw_name, "port": 16999}


def test_the_module_writes_once_and_mends_the_mode(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    conf = tmp_path / "etc/slurmdbd.conf"
    assert call("slurmdbd_config", check=True, **params)["changed"] is True
    assert not conf.exists()
    assert len(call("slurmdbd_config", **params)["files"]) == 2
    assert stat.S_IMODE(conf.stat().st_mode) == 0o600
    assert call("slurmdbd_config", **params)["changed"] is False
    conf.chmod(0o644)
    assert call("slurmdbd_config", check=True, **params)["files"] == [str(conf)]
    assert call("slurmdbd_config", **params)["files"] == [str(conf)]
    assert stat.S_IMODE(conf.stat().st_mode) == 0o600
    assert call("slurmdbd_config", **params, speed=50)["files"] == [str(conf)]


def test_the_module_changes_nothing_under_a_run(
    call: Caller, params: dict[str, Any], tmp_path: Path, replaying: Callable[[Path, str], None]
) -> None:
    call("slurmdbd_config", **params)
    replaying(tmp_path, "kth")
    assert call("slurmdbd_config", **params)["changed"] is False
    assert call("slurmdbd_config", **params, speed=2)["msg"].startswith("wrong use: NODES, CPUS, PORT, CONFIG: run kth goes on")
    assert lines((tmp_path / "etc/slurmdbd.conf").read_text(), "=")["MessageTimeout"] == "60"


def test_wrong_qos_is_said_before_anybody_is_asked(call: Caller, tmp_path: Path) -> None:
    told = call("slurm_accounts", directory=str(tmp_path), cluster="a", user="slurm-a", qos=[{"name": "A"}])
    assert told["msg"].startswith("wrong use: CONFIG: qos 1: name 'A'")


def test_check_mode_says_what_a_cluster_that_is_not_there_would_get(call: Caller, tmp_path: Path) -> None:
    (tmp_path / "sacctmgr").write_text("#!/bin/sh\necho 'no such luck' >&2\nexit 1\n")
    (tmp_path / "sacctmgr").chmod(0o755)
    instance = {"directory": str(tmp_path), "bin": str(tmp_path), "cluster": "a", "user": "slurm-a"}
    told = call("slurm_accounts", check=True, **instance)
    assert told["changed"] is True
    assert [words.split()[:2] for words in told["commands"]] == [["add", "account"], ["add", "user"]]
    told = call("slurm_accounts", wait=0, **instance)
    assert told["msg"] == f"slurmdbd does not answer: no such luck; see {tmp_path}/log/slurmdbd.log"


def test_the_record_of_a_run() -> None:
    command = accounting.record_command("/usr/bin", 1795235421.9)
    assert command[0] == "/usr/bin/sacct" and "--starttime=2026-11-21T04:30:21" in command
    heading = "|".join(accounting.RECORD)
    name = accounting.RECORD.index("JobName")

    def line(of: str) -> str:
        return "|".join(of if number == name else "" for number in range(len(accounting.RECORD)))

    answer = [
        heading,
        *map(line, ("kth.7", "kth.launch", "kth.skip", "wrap", "kth.2.8", "xkth.1", "kth.12", "kth.20.array", "kth.array")),
    ]
    assert accounting.lines_of_run("\n".join(answer) + "\n", "kth") == [
        *(heading, line("kth.7"), line("kth.12"), line("kth.20.array"))
    ]


def test_a_run_that_has_not_begun_has_no_record(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=f"run=kth: it has not begun in {tmp_path}"):
        of_manager(tmp_path, "kth", None, has_accounting=True)


SHOWN = """#!/bin/sh
echo 'ClusterName=a Account=default UserName=slurm-a(998) Partition= ID=3'
echo 'ClusterName=a Account=a_1 UserName=u5(1900000005) Partition= ID=4'
"""


def test_the_accounts_of_a_site_are_loaded_once(call: Caller, tmp_path: Path) -> None:
    tree = 'echo "root||1|normal\ndefault||1|normal\ndefault|slurm-a|1|normal"; cat "${0%/*}/rows" 2>/dev/null; exit 0'
    loads = ANSWERS.replace('cp "$file" "${0%/*}/loaded"', 'cp "$file" "${0%/*}/loaded"; echo "a_1|u5|1|normal" > "${0%/*}/rows"')
    shown = "printf 'root||1|normal\\ndefault||1|normal\\ndefault|slurm-a|1|normal\\nu5||1|normal\\n'"
    assert shown in loads
    for name, script in (("sacctmgr", loads.replace(shown, tree)), ("scontrol", SHOWN)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "etc").mkdir()
    account = {"account": "a_1", "parent": "root", "user": "", "partition": "", "words": {"Fairshare": "3"}}
    site = [account, {**account, "user": "u5", "words": {"MaxJobs": "2"}}]
    params = {"directory": str(tmp_path), "bin": str(tmp_path), "cluster": "a", "user": "slurm-a", "site": site, "wait": 0}
    assert call("slurm_accounts", **params)["changed"] is True
    assert (tmp_path / "loaded").read_text().splitlines() == [
        "Cluster - 'a'", "Parent - 'root'", "Account - 'a_1':Fairshare='3'",
        "Parent - 'a_1'", "User - 'u5':DefaultAccount='a_1':MaxJobs='2'",
    ]  # fmt: skip
    assert call("slurm_accounts", **params)["changed"] is False
    site[1]["words"] = {"MaxJobs": "3"}
    assert call("slurm_accounts", **params)["changed"] is True


@pytest.mark.skipif(shutil.which("my_print_defaults") is None, reason="my_print_defaults is not installed")
@pytest.mark.parametrize(
    "folder", ["/i", "/a b", "/a#b", "/a\\b", '/a"b', "/a'b", "/a\\n", " /a ", "/a=b", "/a;b", "/\u00e4", "/a\\", '"/a"']
)
def test_the_server_reads_a_path_letter_by_letter(tmp_path: Path, folder: str) -> None:
    path = tmp_path / "mariadb.cnf"
    path.write_text(database(Path(folder)).mariadb_cnf())
    told = subprocess.run(["my_print_defaults", f"--defaults-file={path}", "mariadbd"], capture_output=True, text=True, check=True)
    assert f"--datadir={folder}/database" in told.stdout.split("\n")
    assert len(told.stdout.split("\n")) == len(path.read_text().split("\n")) - 2


@pytest.mark.parametrize("folder", ["/a\nuser = root", "/a\rb", "/a\u2028b"])
def test_a_path_that_is_no_line_is_refused(folder: str) -> None:
    with pytest.raises(WrongUse, match=r"^mariadb.cnf: datadir: has the "):
        database(Path(folder)).mariadb_cnf()


@pytest.mark.parametrize("words", [{"GrpTRES": "cpu='1'"}, {"Gr-p": "1"}, {"GrpTRES": "a\u2028b"}, {"where name=x set": "1"}])
def test_words_of_a_qos_that_sacctmgr_would_change_are_refused(words: dict[str, str]) -> None:
    with pytest.raises(WrongUse, match=r"^x: qos a: "):
        qos_of([{"name": "a", **words}], "x")


def test_users_of_associations(tmp_path: Path) -> None:
    """The associations of accounts have no user."""
    program = tmp_path / "sacctmgr"
    program.write_text("#!/bin/sh\nprintf '1|\\n7|u2\\n12|u2\\n'\necho \"$@\" > $(dirname $0)/words\n")
    program.chmod(0o755)
    assert AccountCommands(tmp_path, str(tmp_path)).users_of_associations() == {7: "u2", 12: "u2"}
    assert (tmp_path / "words").read_text().split()[-3:] == ["show", "associations", "format=id,user"]
    program.write_text("#!/bin/sh\necho down >&2; exit 1\n")
    with pytest.raises(ResourceManagerError, match="sacctmgr: down"):
        AccountCommands(tmp_path, str(tmp_path)).users_of_associations()
