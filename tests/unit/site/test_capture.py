"""files/capture/mirage-capture: what of Slurm's output is kept, what becomes a pseudonym, and that no name survives."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import stat
import string
import tarfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.site import now
from slurm_mirage.base.hostlist import expand

SCRIPT = Path(__file__).parents[3] / "files" / "capture" / "mirage-capture"
KEY = bytes(range(32))
USER, OTHER, ACCOUNT, GROUP, HOST, CLUSTER = "aliceblue", "bobgreen", "physlab", "chemgrp", "wombat", "marsupial"
KNOWN = (USER, OTHER, ACCOUNT, GROUP, HOST, CLUSTER)
PLANTED = (*KNOWN, "hunter2", "secretproject", "flexhost", "site.example.org", "10.20.30.40", "thesis", "/home", "run_me")
"""Words that may not be in any output."""


def _load() -> Any:
    loader = importlib.machinery.SourceFileLoader("mirage_capture", str(SCRIPT))
    spec = importlib.util.spec_from_loader("mirage_capture", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


capture = _load()


@pytest.fixture
def names() -> Any:
    return capture.Names(KEY, KNOWN)


def clean(text: str) -> str:
    """The text, in which no planted word is."""
    for word in PLANTED:
        assert word not in text.lower(), text
    return text


def test_it_is_of_python_3_6_and_needs_the_standard_library_only() -> None:
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 6))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {
        "argparse", "codecs", "functools", "getpass", "hashlib", "hmac", "json", "os", "re", "subprocess", "sys", "tarfile",
        "tempfile", "time", "typing",
    }  # fmt: skip
    assert os.access(SCRIPT, os.X_OK)


SUBMITTED = [
    ("sbatch -N 2 --ntasks-per-node=4 -c2 -t10:00 /home/aliceblue/run_me -n 7",
     "sbatch --nodes=2 --ntasks-per-node=4 --cpus-per-task=2 --time=10:00 script"),
    ("/usr/bin/sbatch --gres=gpu:a100:2 -C intel|amd -p gpu,long --mem 4G --exclusive a.sh",
     "sbatch --gres=gpu:a100:2 --constraint=intel|amd --partition=gpu,long --mem=4G --exclusive script"),
    ("sbatch -o /home/aliceblue/%j.out -D /home --export=PASSWORD=hunter2 --mail-user=bobgreen@site.example.org -n3 run_me",
     "sbatch --ntasks=3 script"),
    ("sbatch -J the thesis of bobgreen -n 4 run_me.sh", "sbatch --job-name=J script"),
    ("sbatch --comment for aliceblue -N 2 --wrap run_me -n 9", "sbatch --nodes=2 script"),
    ("sbatch -HQ --array=0-9%2 -d afterok:17:18,singleton --begin=now+1hour --hint=nomultithread a",
     "sbatch --hold --array=0-9%2 --dependency=afterok:17:18,singleton --begin=now+1hour --hint=nomultithread script"),
    ("sbatch --begin=aliceblue --nodes=bobgreen --time=hunter2 --signal=B:USR1@60 a", "sbatch --signal=B:USR1@60 script"),
    ("sbatch --cpus-per-t=2 --unknown=hunter2 --nodefile=/home -n 1 a", "sbatch --cpus-per-task=2 --ntasks=1 script"),
    ("salloc -N1 : -n 2 --gpus=2", "salloc --nodes=1 : --ntasks=2 --gpus=2"),
    ("srun -l -W 60 -n 4 run_me 5", "srun --ntasks=4 script"),
    ("/opt/aliceblue/submit -n 4", "other"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), SUBMITTED)
def test_of_a_submit_line_known_options_stay(names: Any, line: str, expected: str) -> None:
    job_name = "the thesis of bobgreen" if " -J " in line else "run_me"
    kept = clean(capture.submit_line(names, line, job_name, "for aliceblue"))
    if " -J " in line:
        assert re.sub("j_[0-9a-f]{10}", "J", kept) == "sbatch --job-name=J --ntasks=4 script"
    else:
        assert kept == expected


def test_accounts_hosts_and_reservations_of_a_submit_line_are_those_of_the_columns(names: Any) -> None:
    kept = capture.submit_line(names, f"sbatch -A {ACCOUNT} -w {HOST}[01-16] -x {HOST}07 --reservation={USER}_maint a")
    nodes = names.hosts(f"{HOST}[01-16]")
    expected = f"--account={names.account(ACCOUNT)} --nodelist={nodes} --exclude={names.hosts(HOST + '07')}"
    assert kept == f"sbatch {expected} --reservation={names.of('reservation', USER + '_maint')} script"
    assert nodes.endswith("[01-16]")


def test_names_of_things_stay_unless_they_contain_a_name(names: Any) -> None:
    for kept in (
        "gpu",
        "a100&nvlink",
        "[rack1*2&ib]",
        "gres/gpu:a100=2,cpu=4",
        "normal,longrun",
        "billing=4,mem=2M",
        "gpu:4(S:0-1)",
    ):
        assert names.kept(kept) == kept
    assert re.fullmatch(r"cpu,x_\w{10}", names.kept(f"cpu,{ACCOUNT}_gpu"))
    assert re.fullmatch(r"matlab@h_\w{10}:5", names.kept("matlab@flexhost:5"))
    # A short name of a user is a part of a word by chance; on its own, or between separators, it is not.
    short = capture.Names(KEY, ["li"])
    assert short.kept("link,li_queue,li").startswith("link,x_") and "li_" not in short.kept("link,li_queue,li")
    assert capture.Names(KEY, ["gpu"]).kept("gpu") == "gpu"


def test_a_short_user_does_not_change_the_words_of_slurm() -> None:
    names = capture.Names(KEY, ["back", "max", "cons"])
    for words in ("sched/backfill", "bf_max_job_test=500,bf_continue", "select/cons_tres"):
        assert names.vocabulary(words) == words


CONFIG = f"""Configuration data as of 1795747925
AccountingStorageHost   = db.{CLUSTER}.site.example.org
AccountingStorageUser   = {USER}
AuthInfo                = socket=/home/hunter2
BOOT_TIME               = 1795747671
ClusterName             = {CLUSTER}
JobCompHost             = 10.20.30.40
JobCompLoc              = https://{USER}:hunter2@site.example.org
JobSubmitPlugins        = lua,secretproject
HealthCheckProgram      = /home/{USER}/check
Licenses                = matlab@flexhost:5
MailDomain              = site.example.org
PriorityWeightTRES      = CPU=1000,GRES/gpu=3000
SchedulerParameters     = bf_max_job_test=500,{USER}_x
SelectType              = select/cons_tres
SlurmUser               = {OTHER}(999)
SlurmctldHost[0]        = {HOST}1(10.20.30.40)
SuspendExcNodes         = {HOST}[1-2]
SuspendRate             = 60 nodes/min
UnknownSetting          = thesis of {USER}
Slurmctld(primary) at {HOST}1 is UP
"""


def test_settings_that_scontrol_shows(names: Any) -> None:
    left_out: set[str] = set()
    lines = list(capture.configuration(names, CONFIG.splitlines(), left_out, "scontrol show config"))
    text = clean("\n".join(lines))
    shown = {key.strip(): value.strip() for key, value in (line.split("=", 1) for line in lines)}
    assert shown["SelectType"] == "select/cons_tres" and shown["PriorityWeightTRES"] == "CPU=1000,GRES/gpu=3000"
    assert shown["SuspendRate"] == "60 nodes/min" and shown["BOOT_TIME"] == "1795747671"
    assert shown["SuspendExcNodes"] == names.hosts(f"{HOST}[1-2]") and shown["SlurmUser"] == names.user(OTHER)
    assert shown["SchedulerParameters"].startswith("bf_max_job_test=500,x_") and "JobCompLoc" not in text
    assert left_out == {f"scontrol show config: {key}" for key in ("AccountingStorageUser", "AuthInfo", "JobCompLoc")}


SHOWN = [
    f"PartitionName=gpu AllowGroups={GROUP} AllowAccounts={ACCOUNT},root DenyAccounts={OTHER} AllowQos=normal AllocNodes={HOST}1 "
    f"Default=YES QoS=N/A Nodes={HOST}[01-16] OverSubscribe=FORCE:2 State=UP TRES=cpu=32,gres/gpu:a100=2 "
    f"TRESBillingWeights=CPU=1.0,Mem=0.25G JobDefaults=DefMemPerGPU=1000",
    f"NodeName={HOST}01 Arch=x86_64 CPUTot=4 AvailableFeatures=a100,{ACCOUNT}_own Gres=gpu:a100:2(S:0-1) NodeAddr=10.20.30.40 "
    f"NodeHostName={HOST}01.site.example.org OS=Linux 6.1 #1 SMP State=IDLE*+DRAIN Owner={USER}(1000) Comment=the thesis "
    f"Partitions=gpu,{USER}_part CfgTRES=cpu=4,mem=1M Extra=secretproject Reason=see {USER}=hunter2 "
    f"[{OTHER}@1795747720]",
    f"ReservationName={USER}_maint StartTime=1795751320 Nodes={HOST}[01-02] Features=(null) Flags=MAINT,SPEC_NODES "
    f"Users=-{USER},{OTHER} Groups={GROUP} Accounts=-{ACCOUNT} Licenses=matlab:2 State=INACTIVE Comment=thesis",
    "LicenseName=matlab@flexhost Total=5 Used=0 Free=5 Reserved=0 Remote=yes",
    f"SwitchName={HOST}sw1 Level=0 LinkSpeed=1 Nodes={HOST}[01-16] Switches={HOST}sw[2-3]",
]  # fmt: skip


@pytest.mark.parametrize("line", SHOWN)
def test_lines_that_scontrol_shows(names: Any, line: str) -> None:
    kept = clean(capture.shown(names, line, set(), ""))
    for same in ("Default=YES", "OverSubscribe=FORCE:2", "TRES=cpu=32,gres/gpu:a100=2", "TRESBillingWeights=CPU=1.0,Mem=0.25G",
                 "JobDefaults=DefMemPerGPU=1000", "Gres=gpu:a100:2(S:0-1)", "State=IDLE*+DRAIN", "StartTime=1795751320", "Total=5",
                 "Flags=MAINT,SPEC_NODES", "Licenses=matlab:2", "LinkSpeed=1", "QoS=N/A"):  # fmt: skip
        assert (f" {same}" in line) == (f" {same}" in kept), same
    if "Nodes=" in line:
        numbers = re.search(r" Nodes=\w+(\[\S+\])", line)
        assert numbers and f"{names.prefix(HOST)}{numbers[1]}" in kept
    if "Users=-" in line:
        assert f"Users=-{names.user(USER)},{names.user(OTHER)}" in kept and f"Accounts=-{names.account(ACCOUNT)}" in kept
    if "Reason=" in line:
        assert kept.split()[-1] == f"[{names.user(OTHER)}@1795747720]"


SLURM_CONF = f"""# of {USER}
ClusterName={CLUSTER}
SlurmctldHost={HOST}1(10.20.30.40)
AccountingStoragePass=hunter2
SchedulerParameters=bf_window=2880,\\
bf_continue
StateSaveLocation=/home/{USER}  # thesis
Include more.conf
NodeName=DEFAULT CPUs=16 State=UNKNOWN
PartitionName=gpu Nodes=both AllowAccounts={ACCOUNT},{OTHER} AllowGroups={GROUP} DenyAccounts={USER} Secret{USER}=yes \
TRESBillingWeights="CPU=1.0,Mem=0.25G"
{USER.capitalize()}Setting=1
"""
INCLUDED = f"""NodeName={HOST}[01-16] NodeAddr=10.20.30.40 NodeHostname={HOST}[01-16] Port=[17001-17016] \
Feature="a100,{ACCOUNT}" Reason="see thesis"
NodeSet=both Nodes={HOST}[01-02]
DownNodes={HOST}3 State=DOWN Reason="{USER}"
"""


def test_configuration_files(names: Any, tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(SLURM_CONF)
    (tmp_path / "more.conf").write_text(INCLUDED)
    left_out: set[str] = set()
    text = clean("\n".join(capture.conf_file(names, str(tmp_path / "slurm.conf"), left_out, "slurm.conf")))
    assert "SchedulerParameters=bf_window=2880, bf_continue" not in text  # joined without a blank before the comma's word
    assert "NodeName=DEFAULT CPUs=16 State=UNKNOWN" in text and "TRESBillingWeights=CPU=1.0,Mem=0.25G" in text
    nodes = names.hosts(f"{HOST}[01-16]")
    assert re.search(rf"NodeName={re.escape(nodes)} Port=\[17001-17016\] Feature=a100,x_\w+ Reason=t_\w+", text)
    assert f"PartitionName=gpu Nodes={names.hosts('both')} AllowAccounts={names.account(ACCOUNT)},{names.account(OTHER)}" in text
    assert f"NodeSet={names.hosts('both')} Nodes={names.hosts(HOST + '[01-02]')}" in text
    assert left_out == {"slurm.conf: AccountingStoragePass"}


def test_other_files(names: Any, tmp_path: Path) -> None:
    (tmp_path / "gres.conf").write_text(
        f"AutoDetect=nvml\nNodeName={HOST}[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-31\n"
    )
    (tmp_path / "topology.conf").write_text(
        f"SwitchName={HOST}1 Nodes={HOST}[1-2]\nBlockName=b1 Nodes={HOST}[3-4]\nBlockSizes=2,4\n"
    )
    (tmp_path / "topology.yaml").write_text(
        f"---\n- topology: {USER}\n  cluster_default: true\n  tree:\n    switches:\n      - switch: {HOST}sw1  # {USER}\n"
        f"        nodes: {HOST}[01-04]\n        note: hunter2\n  block:\n    block_sizes:\n      - 4\n"
    )
    gres, topology = (
        clean("\n".join(capture.conf_file(names, str(tmp_path / name), set(), name))) for name in ("gres.conf", "topology.conf")
    )
    assert gres == f"AutoDetect=nvml\nNodeName={names.hosts(HOST)}[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-31"
    assert (
        topology.splitlines()[0] == f"SwitchName={names.hosts(HOST)}1 Nodes={names.hosts(HOST)}[1-2]"
        and "BlockSizes=2,4" in topology
    )
    tree = clean("\n".join(capture.topology_yaml(names, str(tmp_path / "topology.yaml"))))
    assert f"        nodes: {names.hosts(HOST)}[01-04]" in tree and "      - 4" in tree and "note" not in tree


def test_tables(names: Any) -> None:
    assoc = [
        "Cluster|Account|User|Partition|ParentName|ID|Share|GrpTRES|QOS|Def QOS",
        f"{CLUSTER}|{ACCOUNT}|||root|5|parent|cpu=4,gres/gpu=2|{USER}_qos,normal|normal",
        f"{CLUSTER}|{ACCOUNT}|{USER}|gpu||9|3|||",
    ]
    kept = [line.split("\t") for line in capture.table(names, "assoc", assoc)]
    clean(str(kept))
    assert kept[0] == assoc[0].split("|") and kept[1][4:8] == ["root", "5", "parent", "cpu=4,gres/gpu=2"]
    assert kept[2][1:4] == [names.account(ACCOUNT), names.user(USER), "gpu"]
    event = [
        "Cluster|Event|Cluster Nodes|NodeName|TimeStart|TimeEnd|State|StateRaw|TRES|User|Reason",
        f"{CLUSTER}|Node||{HOST}08|1795747720|Unknown|DRAIN|514|cpu=4|{USER}(1000)|ask {OTHER}@site.example.org | thesis",
        "torn line of a reason",
        f"{CLUSTER}|Cluster|{HOST}[1-8]||1795747672|Unknown||0|billing=32||Cluster Registered TRES",
    ]
    kept = [line.split("\t") for line in capture.table(names, "event", event)]
    clean(str(kept))
    assert len(kept) == 3 and kept[1][9] == names.user(USER) and kept[2][10] == "Cluster Registered TRES"
    share = ["Account|User|RawShares|NormShares|LevelFS|TRESRunMins", f"  {ACCOUNT}|{USER}|parent|0.5|inf|cpu=0,fs/disk=0"]
    assert (
        list(capture.table(names, "sshare", share))[1]
        == f"  {names.account(ACCOUNT)}\t{names.user(USER)}\tparent\t0.5\tinf\tcpu=0,fs/disk=0"
    )


ROW = {
    "JobID": "3_[8-9%2]", "JobIDRaw": "3", "User": USER, "Account": ACCOUNT, "Group": GROUP, "Partition": "gpu,long",
    "QOS": "normal", "Cluster": CLUSTER, "Submit": "1795747720", "Start": "Unknown", "Timelimit": "1-00:00:00",
    "State": "CANCELLED by 1000",
    "Reason": "AssocGrpCpuLimit", "ReqMem": "4Gn", "ReqTRES": "billing=8,cpu=8,gres/gpu:a100=1", "NodeList": f"{HOST}[01-02]",
    "Constraints": "intel|amd", "Licenses": "matlab@flexhost:1", "Reservation": f"{USER}_maint", "WCKey": f"*{USER}",
    "JobName": "secretproject | thesis\n2", "WorkDir": f"/home/{USER}", "Comment": f"for {USER}", "AdminComment": "hunter2",
    "Extra": "hunter2", "Container": f"/home/{USER}/c", "SubmitLine": f"sbatch -A {ACCOUNT} -n 3 --wrap echo a|b\nhunter2",
}  # fmt: skip


def test_rows_of_sacct(names: Any) -> None:
    columns = [column for column in capture.SACCT if column in ROW and column != "JobIDRaw"] + ["JobIDRaw"]
    line = clean(capture.Sacct(names, columns).job(ROW))
    kept = dict(zip(columns, line.split("\t"), strict=True))
    for same in ("JobID", "Partition", "QOS", "Submit", "Start", "Timelimit", "Reason", "ReqMem", "ReqTRES", "Constraints"):
        assert kept[same] == ROW[same]
    assert kept["State"] == "CANCELLED" and kept["NodeList"] == names.hosts(f"{HOST}[01-02]") and "\n" not in line
    assert kept["SubmitLine"] == f"sbatch --account={names.account(ACCOUNT)} --ntasks=3 script"
    assert kept["WCKey"].startswith("*w_") and kept["User"] == names.user(USER)


def test_jobs_of_sacct_as_json(names: Any) -> None:
    job = {
        "job_id": 7, "user": USER, "account": ACCOUNT, "group": GROUP, "name": "thesis", "cluster": CLUSTER, "partition": "gpu",
        "nodes": f"{HOST}[1-2]", "kill_request_user": USER, "working_directory": f"/home/{USER}", "script": "hunter2",
        "submit_line": "sbatch -n 3 run_me", "stdout": "/home/x",
        "comment": {"administrator": "hunter2", "job": "thesis", "system": ""},
        "association": {"account": ACCOUNT, "cluster": CLUSTER, "partition": "", "user": USER, "id": 5},
        "array": {"job_id": 7, "limits": {"max": {"running": {"tasks": 2}}}, "task_id": {"set": True, "number": 3}},
        "state": {"current": ["COMPLETED"], "reason": "None"}, "steps": [{"step": {"name": "run_me"}}],
        "tres": {"requested": [{"type": "gres", "name": "gpu:a100", "id": 1001, "count": 2}]},
        "wckey": {"wckey": USER, "flags": []},
        "exit_code": {"status": ["SUCCESS"], "return_code": {"set": True, "number": 0}, "signal": {"id": 9, "name": "KILL"}},
        "reservation": {"id": 1, "name": f"{USER}_maint"}, "licenses": "matlab@flexhost:1", "container": "/home",
        "extra": "hunter2",
        "used_gres": "hunter2", "flags": ["CLEAR_SCHEDULING"], "mcs": {"label": USER}, f"new_{USER}": 1,
    }  # fmt: skip
    kept = capture.json_value(names, job, capture.JSON_JOB, ["thesis", ""])
    clean(json.dumps(kept))
    for same in ("job_id", "partition", "array", "state", "tres", "exit_code", "flags"):
        assert kept[same] == job[same]
    assert kept["submit_line"] == "sbatch --ntasks=3 script" and kept["association"]["user"] == names.user(USER)


def pieces(text: str, cuts: list[int]) -> Iterator[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return (text[begin:end] for begin, end in pairwise(places))


CUTS = st.lists(st.integers(0, 10_000), max_size=30)


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text() | st.integers(), max_size=4), max_size=6), CUTS, st.booleans())
def test_json_is_read_in_any_chunks(jobs: list[dict[str, Any]], cuts: list[int], indented: bool) -> None:
    text = json.dumps({"meta": {"a": [1]}, "errors": [], "jobs": jobs, "warnings": []}, indent=1 if indented else None)
    assert list(capture.json_jobs(pieces(text, cuts))) == jobs


def test_json_without_jobs_has_the_words_of_slurm() -> None:
    with pytest.raises(ValueError, match="Unable to parse time format"):
        list(capture.json_jobs(['{"errors": [{"description": "Unable to parse time format"}]}']))
    assert list(capture.json_jobs(['{"errors": [{"description": "Nothing found"}]}'])) == []


FIELD = st.text(st.characters(blacklist_characters="\x1f", blacklist_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(FIELD, FIELD, st.integers(1, 999).map(str)), max_size=6), CUTS)
def test_rows_with_line_breaks_are_read_in_any_chunks(rows: list[tuple[str, str, str]], cuts: list[int]) -> None:
    text = "".join("\x1f".join(row) + "\n" for row in rows)
    assert [tuple(row) for row in capture.records(pieces(text, cuts), 3)] == rows


@given(st.text(), st.sampled_from(sorted(capture.KINDS)))
def test_the_same_name_and_key_give_the_same_pseudonym(text: str, kind: str) -> None:
    first, again = (capture.Names(KEY, KNOWN).of(kind, text) for _ in range(2))
    assert first == again
    word = text + "zzz"
    assert capture.Names(KEY).user(word) != capture.Names(bytes(32)).user(word) != word


PREFIX = st.text(string.ascii_lowercase + "-._", min_size=1, max_size=8).filter(lambda text: text.strip("-._"))


@given(st.lists(st.tuples(PREFIX, st.integers(1, 3), st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=4))
def test_lists_of_hosts_keep_their_numbers(groups: list[tuple[str, int, int, int]]) -> None:
    names = capture.Names(KEY)
    ranges = [f"{prefix}[{first:0{width}}-{first + more:0{width}}]" for prefix, width, first, more in groups]
    hosts, hidden = expand(",".join(ranges)), expand(names.hosts(",".join(ranges)))
    assert [re.findall(r"\d+", host) for host in hosts] == [re.findall(r"\d+", host) for host in hidden]
    assert [names.hosts(host) for host in hosts] == hidden  # a single host, and the same host in a range
    assert len(set(hosts)) == len(set(hidden))


AROUND = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["-A ", "--", "=", "gpu:", " -n 4 ", "@", "/", "'"]
)


@given(
    AROUND,
    st.sampled_from(KNOWN),
    AROUND,
    st.sampled_from(sorted(capture.KINDS)),
    st.sampled_from([str.lower, str.upper, str.title]),
)
def test_no_known_name_survives(before: str, word: str, after: str, kind: str, case: Any) -> None:
    names = capture.Names(KEY, KNOWN)
    text = before + case(word) + after
    assert word not in names.of(kind, text).lower()
    assert word not in names.words_of_slurm(text).lower()
    for line in (f"sbatch {text} -n 2", f"sbatch -n 2 {text}", f"sbatch --constraint={text} --wrap x", f"{text} -n 3"):
        assert word not in capture.submit_line(names, line, text).lower()
    for line in (text, f"NodeName={text}", f"Reason={text}", f"PartitionName=a State=UP {text}", f"Key={text}"):
        assert word not in capture.conf_line(names, line, set(), "").lower()
        assert word not in capture.shown(names, line, set(), "").lower()
    settings = [
        f"{key} = {one}"
        for one in text.splitlines()
        for key in ("Key", "SlurmUser", "SchedulerParameters", "SlurmctldHost[0]", "Licenses")
    ]
    assert word not in "\n".join(capture.configuration(names, settings, set(), "")).lower()


def test_a_name_in_the_clear_has_no_line_breaks() -> None:
    names = capture.Names(None)
    assert names.of("job name", "a\tb\nc") == "a b c" and names.hosts("n[1-2]") == "n[1-2]"
    assert capture.submit_line(names, "sbatch -A phys --export=PASSWORD=hunter2 a.sh") == "sbatch --account=phys script"


def test_the_key_is_made_once_and_no_one_else_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = capture.make_key(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and capture.make_key(str(path)) == key and len(key) == 32
    path.chmod(0o640)
    with pytest.raises(capture.Stop, match="can be read by others: chmod 600"):
        capture.make_key(str(path))
    path.chmod(0o600)
    path.write_text("hunter2\n")
    with pytest.raises(capture.Stop, match="is not a key"):
        capture.make_key(str(path))


def test_a_capture_goes_on_with_its_key_and_window_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "c")
    begun = capture.Capture(folder, capture.Names(KEY), 0, 100, 60)
    assert begun.pieces() == [(0, 60), (60, 100)]
    begun.part("sshare.txt", lambda: ["a", "b"])

    def fails() -> Iterator[str]:
        yield "a"
        raise capture.Failed("error: Unable to contact slurmdbd at 10.20.30.40\nhint")

    begun.part("sacctmgr/qos.txt", fails)
    assert begun.failed == {"sacctmgr/qos.txt": "error: Unable to contact slurmdbd at address hint"}
    again = capture.Capture(folder, capture.Names(KEY), 0, 100, 60)
    again.part("sshare.txt", lambda: pytest.fail("taken again"))
    assert again.parts["sshare.txt"]["rows"] == 2 and "exists" in capsys.readouterr().out
    with pytest.raises(capture.Stop, match="was begun with another key"):
        capture.Capture(folder, capture.Names(bytes(32)), 0, 100, 60)
    with pytest.raises(capture.Stop, match="another window or --piece"):
        capture.Capture(folder, capture.Names(KEY), 0, 100, 50)
    (tmp_path / "c" / "state.json").write_text("{")
    with pytest.raises(capture.Stop, match="is torn"):
        capture.Capture(folder, capture.Names(KEY), 0, 100, 60)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--from", "2026-11-08", "--to", "2026-11-01"], "--to is not after --from"),
        (["--from", "2026-11-01", "--to", "2255-01-01"], "--to is in the future"),
        (["--from", "2026-11-32", "--to", "2026-11-01"], "wrong use: --from: '2026-11-32' is no date: 2026-11-01 or"),
        (["--from", "1793491200", "--to", "1793491300", "--piece", "0d"], "wrong use: --piece: '0d' is no length of a piece"),
        (["--to", "2026-11-01"], "wrong use: the following arguments are required: --from"),
        (["--from", "2026-11-01"], "wrong use: give one of --to and --now"),
        (["--from", "2026-11-01", "--to", "2026-11-02", "--now"], "wrong use: give one of --to and --now"),
        (["--from", "2255-01-01", "--now"], "wrong use: --to is not after --from"),
    ],
)
def test_a_window_is_in_the_past(given: list[str], words: str) -> None:
    with pytest.raises(capture.Stop, match=words):
        capture.arguments(given)


def test_what_an_ordinary_user_does_not_see_is_said() -> None:
    assert capture.not_allowed("operator", ["jobs"], True) == []
    assert capture.not_allowed("user", ["jobs", "usage"], True) == [
        "jobs of other users: PrivateData has jobs",
        "the usage of others (sshare): PrivateData has usage",
    ]
    assert capture.not_allowed("user", [], False) == [] and "perhaps" in capture.not_allowed("user", [], True)[0]


QUEUED = (
    "7|7|N/A|RUNNING|4294901750|None|1795742720|wombat[01-02]\n"
    "9|8|3|PENDING|77|launch failed requeued held|N/A|\n"
    "8|8|1-4|PENDING|77|ReqNodeNotAvail, UnavailableNodes:wombat07|0|(null)\n"
    "broken|line\n"
)


def _says(tmp_path: Path, program: str, text: str) -> str:
    """A program of Slurm that writes this text, and its arguments as a file."""
    (tmp_path / "said").write_text(text)
    (tmp_path / program).write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/asked\ncat {tmp_path}/said\n')
    (tmp_path / program).chmod(0o755)
    return str(tmp_path / program)


def test_the_queue_has_a_line_for_each_job_and_no_names(names: Any, tmp_path: Path) -> None:
    lines = list(capture.queue(names, capture.SQUEUE, [_says(tmp_path, "squeue", QUEUED), "-a", "-r", "-h"]))
    assert (tmp_path / "asked").read_text() == "-a -r -h -o %A|%F|%K|%T|%Q|%r|%S|%N\n"
    assert tuple(lines[0].split("\t")) == now.COLUMNS
    fields = [line.split("\t") for line in lines[1:]]
    assert [one[:5] for one in fields] == [
        ["7", "7", "", "RUNNING", "4294901750"],
        ["9", "8", "3", "PENDING", "77"],
        ["8", "8", "1-4", "PENDING", "77"],
    ]
    assert [one[6] for one in fields] == ["1795742720", "", "0"]
    assert fields[0][7] == names.hosts("wombat[01-02]")
    assert "launch failed requeued held" in fields[1][5]
    clean("".join(lines))


def test_priorities_of_waiting_jobs_are_taken_where_they_have_parts(
    names: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _says(tmp_path, "sprio", "7|10|200\n")
    (tmp_path / "squeue").symlink_to("sprio")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for kind, parts in (("multifactor", {"now/squeue.txt", "now/sprio.txt"}), ("basic", {"now/squeue.txt"})):
        taken = capture.Capture(str(tmp_path / kind), names, 0, 100, 60)
        capture.take_queue(taken, f"PriorityType            = priority/{kind}\n")
        assert set(taken.parts) == parts
    assert (tmp_path / "multifactor/now/sprio.txt").read_text() == "JobID\tAge\tFairShare\n7\t10\t200\n"


def test_the_window_ends_when_the_queue_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before that, the names of weeks are learned, which takes minutes."""
    program = """#!/bin/sh
    case "$(basename "$0") $*" in
    "sacct --helpformat") echo "JobIDRaw Submit Start" ;;
    "scontrol show config") echo "SLURM_VERSION           = 22.05.8" ;;
    squeue*) echo "7|7|N/A|RUNNING|4294901750|None|1795742720|" ;;
    esac
    """
    for name in ("sacct", "sacctmgr", "scontrol", "squeue", "sshare"):
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    clock = [1_795_742_800]

    def known_names(*_: int) -> set[str]:
        clock[0] += 900
        return set()

    monkeypatch.setattr(capture, "known_names", known_names)
    monkeypatch.setattr(capture.time, "time", lambda: float(clock[0]))
    given = ["--from", "1795700000", "--now", "--out", str(tmp_path), "--key", str(tmp_path / "key")]
    path = Path(capture.capture(given))
    with tarfile.open(path) as tar:
        manifest = json.load(tar.extractfile("manifest.json") or io.BytesIO())
    assert "now/squeue.txt" in manifest["files"]
    assert manifest["end"] == 1_795_742_800 + 900
    days = [time.strftime("%Y%m%dT%H%M", time.localtime(at)) for at in (1_795_700_000, manifest["end"])]
    assert path.name == f"mirage-capture-{'-'.join(days)}.tar"
