"""The user namespace of a sandbox: what its root may do there, and that it is no one outside."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from slurm_mirage.base.processes import NAMED_USERS

USER, CODE = (
    "nobody",
    """
import os, pwd, sys
from slurm_mirage.farm import isolation
descriptor = isolation.make_user_namespace(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
isolation.become_user(sys.argv[1])
os.set_inheritable(descriptor, True)
for program in sys.argv[4:]:
    words = ["nsenter", f"--user=/proc/self/fd/{descriptor}", "--preserve-credentials", "--", "sh", "-c", program]
    print(os.waitstatus_to_exitcode(os.spawnvp(os.P_WAIT, "nsenter", words) << 8), flush=True)
""",
)
FIRST = NAMED_USERS.start

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root makes one")


def _inside(*programs: str) -> list[str]:
    words = [sys.executable, "-c", CODE, USER, str(FIRST), str(len(NAMED_USERS)), *programs]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    if "Operation not permitted" in result.stderr and not result.stdout:
        pytest.skip("this host allows no user namespace")
    return result.stdout.splitlines()


def test_its_root_becomes_users_and_is_the_instances_user_outside() -> None:
    become = f"setpriv --reuid={FIRST + 10} --regid={FIRST} --clear-groups id -u"
    assert _inside("id -u", become, "stat -c %u /proc/1") == ["0", "0", str(FIRST + 10), "0", "65534", "0"]


def test_its_root_has_no_rights_over_others_files() -> None:
    assert _inside("cat /etc/shadow 2>/dev/null || echo no", "setpriv --reuid=1 true 2>/dev/null || echo no") == ["no", "0"] * 2
