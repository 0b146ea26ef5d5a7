"""The module schedule_metrics, run in process with its parameters as Ansible gives them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import ansible.module_utils
import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

ROOT = Path(__file__).parents[2]
KTH = ROOT / ".." / "shared" / "traces" / "KTH-SP2-1996.unfiltered.swf.gz"
LOG = (
    "; MaxProcs: 8\n; MaxNodes: 4\n1 0 0 20 8 -1 -1 8 60 -1 1 1 1 -1 -1 -1 -1 -1\n2 5 15 30 2 -1 -1 2 60 -1 1 1 1 -1 -1 -1 -1 -1\n"
)
JOBS = (
    "id,submit,eligible,start,end,suspended,processors,nodes,requested,runtime,priority,partition,state,submit_lag\n"
    "1,0,0,2,12,4,2,1,60,6,100,batch,COMPLETED,0.01\n"
)


@pytest.fixture(scope="module")
def module() -> ModuleType:
    utils = str(ROOT / "module_utils")
    if utils not in ansible.module_utils.__path__:
        ansible.module_utils.__path__.append(utils)
    spec = importlib.util.spec_from_file_location("schedule_metrics", ROOT / "library" / "schedule_metrics.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def run(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> Any:
    def run_module(check: bool = False, **params: Any) -> dict[str, Any]:
        """What the module answers to these parameters."""
        arguments = {name: str(value) if isinstance(value, Path) else value for name, value in params.items()}
        with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit) as end:
            module.main()
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert end.value.code == (1 if result.get("failed") else 0)
        return result

    return run_module


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(LOG)
    return path


def test_a_log_without_further_parameters(run: Any, log: Path) -> None:
    result = run(src=log)
    assert not result["changed"]
    assert (result["format"], result["notes"]) == ("swf", {})
    assert result["metrics"]["metrics"]["wait_mean"] == 7.5
    assert result["metrics"]["metrics"]["utilisation"] == (8 * 20 + 2 * 30) / (8 * 50)
    assert result["metrics"]["settings"]["nodes"] == 4
    assert ["makespan", 50, "s", "first submission to last end, less the cuts"] in result["table"]
    assert list(log.parent.iterdir()) == [log]


def test_parameters_are_passed_on(run: Any, log: Path) -> None:
    given = {"processors": 16, "nodes": 2, "tau": 60, "w2_reading": "log"}
    settings = run(src=log, **given, warmup_cut="10%", cooldown_cut=5)["metrics"]["settings"]
    assert {name: settings[name] for name in given} == given
    assert (settings["warmup_cut"], settings["cooldown_cut"], settings["window"]) == (5, 5, [5, 45])


def test_the_headers_nodes_do_not_go_with_other_processors(run: Any, log: Path) -> None:
    result = run(src=log, processors=16)["metrics"]
    assert result["settings"]["nodes"] is None
    assert result["metrics"]["W4"] is None


def test_a_run_with_its_suspensions(run: Any, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "suspensions.csv").write_text("job,suspend,resume\n1,5,9\n")
    (tmp_path / "experiment.json").write_text('{"inputs": {"NODES": "2", "CPUS": "2", "CLASSES": "", "SHRINK": "50"}}')
    result = run(src=tmp_path / "jobs.csv")
    assert result["format"] == "run"
    settings = result["metrics"]["settings"]
    assert (settings["processors"], settings["nodes"], settings["immediate_below"]) == (4, 2, 2)
    assert result["metrics"]["metrics"]["suspensions_mean"] == 1
    assert result["metrics"]["null_reasons"] == {}


def test_dest_is_written_once(run: Any, log: Path) -> None:
    dest = log.with_name("metrics.json")
    first = run(src=log, dest=dest)
    assert first["changed"]
    assert json.loads(dest.read_text()) == first["metrics"]
    before = dest.stat()
    assert not run(src=log, dest=dest)["changed"]
    assert (dest.stat().st_mtime_ns, dest.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert run(src=log, dest=dest, tau=20)["changed"]
    assert sorted(path.name for path in log.parent.iterdir()) == ["log.swf", "metrics.json"]


def test_check_mode_says_what_would_change_and_writes_nothing(run: Any, log: Path) -> None:
    dest = log.with_name("metrics.json")
    planned = run(check=True, src=log, dest=dest)
    assert planned["changed"]
    assert not dest.exists()
    assert run(src=log, dest=dest)["metrics"] == planned["metrics"]
    assert not run(check=True, src=log, dest=dest)["changed"]


def test_wrong_use_is_one_line(run: Any, tmp_path: Path, log: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "bad.swf").write_text("1 2 3\n")
    assert run(src=tmp_path / "none")["msg"] == f"wrong use: TRACE: {tmp_path}/none: cannot be read (No such file or directory)"
    assert "line 1: has 3 fields" in run(src=tmp_path / "bad.swf")["msg"]
    assert run(src=tmp_path / "jobs.csv")["msg"].startswith("wrong use: processors: ")
    assert run(src=log, tau=0)["msg"].startswith("wrong use: TAU: 0 may be")
    assert run(src=log, warmup_cut="5 min")["msg"].startswith("wrong use: WARMUP_CUT: '5 min' may be")
    assert run(src=log, warmup_cut="50%", cooldown_cut="50%")["msg"].startswith("wrong use: WARMUP_CUT, COOLDOWN_CUT: ")
    assert run(src=log, nodes=99)["msg"].startswith("wrong use: nodes: 99 may be")
    missing = run(src=log, dest=tmp_path / "none" / "metrics.json")
    assert missing["msg"] == f"wrong use: dest: {tmp_path}/none/metrics.json cannot be written (No such file or directory)"


def test_documentation_is_true(module: ModuleType, run: Any, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documentation = yaml.safe_load(module.DOCUMENTATION)
    seen: dict[str, Any] = {}
    original = module.AnsibleModule

    def spy(argument_spec: dict[str, Any], **rest: Any) -> Any:
        seen.update(argument_spec)
        return original(argument_spec=argument_spec, **rest)

    monkeypatch.setattr(module, "AnsibleModule", spy)
    result = run(src=log)
    described = {
        name: {key: option[key] for key in ("type", "required", "default", "choices") if key in option}
        for name, option in documentation["options"].items()
    }
    assert described == seen
    assert set(yaml.safe_load(module.RETURN)) == set(result) - {"changed", "invocation"}
    for task in yaml.safe_load(module.EXAMPLES):
        assert set(task["schedule_metrics"]) <= set(seen)


def test_a_real_log(run: Any) -> None:
    if not KTH.exists():
        pytest.skip("skipped: ../shared/traces/KTH-SP2-1996.unfiltered.swf.gz not there")
    result = run(src=KTH)
    assert result["metrics"]["jobs"]["submitted"] == 28489
    assert result["notes"] == {"ran_over_requested_time": 475}
