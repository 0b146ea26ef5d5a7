"""A client of Slurm's REST API, with Python's standard library only; and commands in the shell of a user of a sandbox."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from mirage import ROOT
from mirage.knobs.table import BY_NAME

TIMEOUT = 120.0
"""Real seconds for an answer."""
LISTS: int = 40
"""The first version (v0.0.40) in which a job's environment is a list, and numbers say whether they are set."""
_MARK = "--- lines of the shell ---"


class Refused(Exception):
    """The server answered with an error. The message has the status and what it says."""


class RestClient:
    """One client with a connection of its own, which is kept open. Raises Refused, OSError and http.client.HTTPException."""

    def __init__(self, url: str, user: str, token: str, version: int = 0) -> None:
        """version: NN of v0.0.NN; 0 for the newest one of the server."""
        self._access, place = (url, user, token), urlsplit(url)
        assert place.hostname is not None
        self._connection = http.client.HTTPConnection(place.hostname, place.port, timeout=TIMEOUT)
        self._headers = {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token, "Accept": "application/json"}
        self.version = version or self._newest()

    def _newest(self) -> int:
        text = json.dumps(json.loads(self.raw("GET", "/openapi/v3")).get("paths", {}))
        return max(int(number) for number in re.findall(r"/slurm/v0\.0\.(\d+)/", text))

    def another(self) -> RestClient:
        """A client with another connection, and the same user and version."""
        return RestClient(*self._access, self.version)

    def raw(self, method: str, path: str, content: Any = None) -> bytes:
        """The body of an answer."""
        body = None if content is None else json.dumps(content)
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens it again
            raise
        if response.status != 200:
            raise Refused(f"{method} {path}: {response.status} {answer[:300].decode(errors='replace')}")
        return answer

    def path(self, name: str, part: str = "slurm") -> str:
        """The path of a resource: jobs, nodes, ... of `slurm` or of the database, `slurmdb`."""
        return f"/{part}/v0.0.{self.version}/{name}"

    def get(self, name: str, part: str = "slurm") -> dict[str, Any]:
        """The content of a resource. Raises Refused for one with errors, which may come with status 200."""
        content: dict[str, Any] = json.loads(self.raw("GET", self.path(name, part)))
        if errors := content.get("errors"):
            raise Refused(f"{name}: {errors}")
        return content

    def submit(self, script: str, folder: str, minutes: int, environment: Mapping[str, str]) -> int:
        """Submit a batch job and return its number. folder: the job's current one; minutes: its time limit"""
        has_lists = self.version >= LISTS
        job = {
            "name": "rest",
            "current_working_directory": folder,
            "time_limit": {"set": True, "number": minutes} if has_lists else minutes,
            "environment": [f"{name}={value}" for name, value in environment.items()] if has_lists else dict(environment),
        }
        answer = json.loads(self.raw("POST", self.path("job/submit"), {"script": script, "job": job}))
        if not answer.get("job_id"):
            raise Refused(f"job/submit: {answer.get('errors')}")
        return int(answer["job_id"])

    def cancel(self, job: int) -> None:
        """Cancel a job."""
        self.raw("DELETE", self.path(f"job/{job}"))


def in_shell(cluster: str, user: str, script: str) -> str:
    """The output of bash's script in a shell of the user (make shell)."""
    words = ["make", "--no-print-directory", "shell", f"CLUSTER={cluster}", f"USER={user}"]
    environment = {name: value for name, value in os.environ.items() if name not in BY_NAME and not name.startswith("MAKE")}
    result = subprocess.run(
        words, cwd=ROOT, env=environment, input=f"echo '{_MARK}'\n{script}\n", capture_output=True, text=True, check=False
    )
    _, mark, output = result.stdout.partition(f"{_MARK}\n")
    if not mark:
        raise RuntimeError(f"make shell USER={user}: {(result.stdout + result.stderr).strip()[-300:]}")
    return output


def client_of(cluster: str, user: str) -> RestClient:
    """A client with a token of the user."""
    url, token = in_shell(cluster, user, 'echo "$REST_URL $REST_TOKEN"').split()
    return RestClient(url, user, token)
