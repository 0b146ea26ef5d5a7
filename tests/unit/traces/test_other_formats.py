"""Formats that are known but not read: the refusal names them and says what to do."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import time
from pathlib import Path

import pytest

from mirage.traces import other_formats
from mirage.traces.trace import read_trace
from slurm_mirage.base.errors import WrongUse

D = "2026-03-01T"
JOBS = f"JobID|Submit|Start|End|State|NCPUS\n7|{D}10:00:00|{D}10:00:10|{D}10:30:10|COMPLETED|4\n"
HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "7,u1,vcA,2,8,1,COMPLETED,2026-03-01 10:00:00,2026-03-01 10:00:10,2026-03-01 10:30:10,1800,10\n"
)
GWF = "7\t0\t10\t60\t4\t55.5\t-1\t4\t3600\t-1\t1\tU3\tG1\tX2\tQ0\tP0\tS1\tS1" + 10 * "\t-1" + "\tProject1"
PBS = (
    "03/01/2026 10:30:10;E;7.server;user=u1 group=g1 jobname=n queue=q ctime=1 qtime=1 etime=1 start=2 exec_host=n1/0*4 "
    "Resource_List.ncpus=4 end=9 Exit_status=0\n"
)
SGE = "all.q:n1:g1:u1:job.sh:7:sge:0:1772359200:1772359210:1772361010:0:0:1800:9.5:0.1:" + ":".join(["0"] * 28) + "\n"
TABLE = (
    "       JobID              Submit      State  NCPUS \n"
    "------------ ------------------- ---------- ------ \n"
    f"7            {D}10:00:00  COMPLETED      4 \n"
)
BATSIM = {"jobs": [{"id": "w!7", "subtime": 0, "res": 4, "profile": "p"}], "profiles": {"p": {"type": "delay", "delay": 9}}}
ELASTISIM = [{"type": "rigid", "submit_time": 0, "num_nodes": 4, "application_model": "a.json"}]


@pytest.mark.parametrize(
    ("text", "named", "how"),
    [
        (PBS, "line 1: is accounting of PBS", "SWF"),
        ("# Version: 8.1\n#\n" + SGE, "line 1: is accounting of Grid Engine", "SWF"),
        ('"JOB_FINISH" "10.1" 1772361010 7 1000 33816578 4 1772359200 0 0 1772359210 "u1" "q"\n', "of LSF", "SWF"),
        (GWF + "\n", "in Grid Workloads Format", "first 11 fields"),
        ("# JobID\tSubmitTime\tWaitTime\tRunTime\tNProcs\n" + GWF, "in Grid Workloads Format", "first 11 fields"),
        ("JobID,SubmitTime,WaitTime,RunTime,NProcs\n7,0,10,60,4\n", "in Grid Workloads Format", "first 11 fields"),
        (HELIOS, "of the Helios traces", "JobID for job_id"),
        (TABLE, "sacct prints it without -P", "--parsable2"),
        (TABLE.split("\n")[2] + "\n", "sacct prints it without -P", "--parsable2"),
        ("JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n7 p n u1 R 1:00 1 n1\n", "fixed width", "--parsable2"),
        (f"JobId=7 JobName=n UserId=u1(1) StartTime={D}10:00:10\n", "scontrol", "sacct --parsable2"),
        ("---\njobs:\n- account: a\n  job_id: 7\n", "YAML", "sacct --json"),
        ("meta:\n  command: []\njobs: []\n", "YAML", "sacct --json"),
        ("{% for job in jobs %}\n{{ job.id }} 0\n{% endfor %}\n", "a template", "render it"),
        ("{{ heading }}\n", "a template", "render it"),
        ("the heading\n{{ job.id }} 0 {# of the log #}\n", "a template", "render it"),
        ("<!DOCTYPE html>\n<html><body>Not found</body></html>\n", "a web page", "save the log itself"),
        (json.dumps(BATSIM), "workload of Batsim", "jobs.csv"),
        (json.dumps(BATSIM, indent=1), "workload of Batsim", "jobs.csv"),
        (json.dumps({"profiles": {}, "jobs": [{"id": 1}]}), "workload of Batsim", "jobs.csv"),
        (json.dumps(ELASTISIM), "workload of ElastiSim", "SWF"),
        (json.dumps({"jobs": ELASTISIM}), "workload of ElastiSim", "SWF"),
    ],
)
def test_text_in_another_format_is_named(text: str, named: str, how: str, tmp_path: Path) -> None:
    for data in (text.encode(), gzip.compress(text.encode()), text.replace("\n", "\r\n").encode()):
        (tmp_path / "log").write_bytes(data)
        with pytest.raises(WrongUse) as error:
            read_trace(tmp_path / "log")
        message = str(error.value)
        assert named in message and how in message.split(named)[1]
        assert message.startswith(f"trace: {tmp_path / 'log'}") and "\n" not in message


def _tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("log.swf"), io.BytesIO(b""))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("data", "named", "how"),
    [
        (JOBS.encode("utf-16"), "UTF-16", "iconv"),
        (JOBS.encode("utf-16-le"), "UTF-16", "iconv"),
        (JOBS.encode("utf-16-be"), "UTF-16", "iconv"),
        (b"\xfe\xff" + JOBS.encode("utf-16-be"), "UTF-16", "iconv"),
        (JOBS.encode("utf-32"), "UTF-32", "iconv"),
        (_tar(), "tar archive", "tar -xf"),
        (b"\xfd7zXZ\0\0\4", "xz", "xz -d"),
        (b"BZh91AY&SY", "bzip2", "bzip2 -d"),
        (b"\x28\xb5\x2f\xfd\0", "Zstandard", "zstd -d"),
        (b"PK\x03\x04\x14\0", "ZIP", "unzip"),
    ],
)
def test_binary_data_in_another_format_are_named(data: bytes, named: str, how: str, tmp_path: Path) -> None:
    for content in (data, gzip.compress(data)):
        (tmp_path / "log").write_bytes(content)
        with pytest.raises(WrongUse, match=named) as error:
            read_trace(tmp_path / "log")
        assert how in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        JOBS,
        JOBS.replace("State", "SubmitLine").replace("COMPLETED", "sbatch --wrap={{ x }} {% y %}"),
        JOBS.replace("|", " | "),
        "1 0 10 60 4 -1 -1 4 3600 -1 1 3 1 -1 -1 -1 -1 -1" + 11 * " -1" + "\n",
        "; <html> {{ x }}\n1 0 10 60 4 -1 -1 4 3600 -1 1 3 1 -1 -1 -1 -1 -1\n",
    ],
)
def test_logs_that_look_like_them_are_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    assert read_trace(tmp_path / "log").frame.height == 1


def test_the_advice_for_helios_and_gwf_works(tmp_path: Path) -> None:
    heading, line = HELIOS.split("\n")[:2]
    names = {
        "job_id": "JobID", "cpu_num": "NCPUS", "node_num": "NNodes", "state": "State", "submit_time": "Submit",
        "start_time": "Start", "end_time": "End",
    }  # fmt: skip
    (tmp_path / "helios").write_text(",".join(names.get(name, name) for name in heading.split(",")) + f"\n{line}\n")
    (tmp_path / "gwf").write_text(" ".join([*GWF.split("\t")[:11], *["-1"] * 7]) + "\n")
    for name, run in (("helios", 1800), ("gwf", 60)):
        frame = read_trace(tmp_path / name).frame
        assert frame.select("wait", "run_time", "status").row(0) == (10, run, 1)


@pytest.mark.parametrize("sign", ["{%", "{{", " ", "JobID ", "7 ", "-", "a:", "<"])
def test_long_lines_are_looked_at_quickly(sign: str) -> None:
    began = time.process_time()
    lines = [sign * 200_000] * 40
    other_formats.of_lines(lines)
    other_formats.is_template(lines)
    assert time.process_time() - began < 2
