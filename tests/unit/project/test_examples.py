"""The workflows of examples/: what GitHub and GitLab would refuse, and the commands in them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_commands_in_documents import mistakes

ROOT = Path(__file__).parents[3]
GITHUB, GITLAB = ROOT / "examples/gate/github.yml", ROOT / "examples/gate/gitlab-ci.yml"
OF_WORKFLOW = {"name", "on", "permissions", "concurrency", "jobs"}
OF_JOB = {"runs-on", "timeout-minutes", "env", "steps"}
OF_STEP = {"name", "uses", "with", "run", "if"}
OF_GITLAB_JOB = {
    *("stage", "tags", "rules", "resource_group", "timeout", "variables"),
    *("script", "after_script", "allow_failure", "artifacts"),
}
"""The keys that these files use, of those that docs.github.com (workflow syntax) and docs.gitlab.com (CI/CD YAML) allow."""


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def scripts(path: Path) -> Iterator[str]:
    """The texts that a shell gets."""
    content = read(path)
    if path == GITHUB:
        yield from (step["run"] for job in content["jobs"].values() for step in job["steps"] if "run" in step)
    else:
        yield from ("\n".join(job[part]) for job in content.values() for part in ("script", "after_script"))


def test_the_workflow_of_github_has_the_keys_of_a_workflow() -> None:
    workflow = read(GITHUB)
    assert set(workflow) == OF_WORKFLOW
    for job in workflow["jobs"].values():
        assert set(job) == OF_JOB
        for step in job["steps"]:
            assert set(step) <= OF_STEP and ("uses" in step) != ("run" in step)


def test_the_pipeline_of_gitlab_has_the_keys_of_a_job() -> None:
    pipeline: Mapping[str, Any] = read(GITLAB)
    assert list(pipeline) == ["gate"]
    for job in pipeline.values():
        assert set(job) == OF_GITLAB_JOB
        assert all(isinstance(line, str) for part in ("script", "after_script") for line in job[part])
        assert job["allow_failure"] == {"exit_codes": [3]}


@pytest.mark.parametrize("path", [GITHUB, GITLAB], ids=lambda path: path.name)
def test_their_commands_are_right(path: Path) -> None:
    texts = list(scripts(path))
    for text in texts:
        checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")
    lines = [line for text in texts for line in text.replace("\\\n", " ").splitlines()]
    calls = [line for line in lines if "-m mirage" in line]
    assert len(calls) == 1 and mistakes(calls[0]) == []
