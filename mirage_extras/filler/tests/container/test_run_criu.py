"""run_criu: what CRIU restores cannot get more rights. A program that restores a bounding set stands for CRIU."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="skipped: needs root to give a program capabilities")

CAP_SETPCAP, CAP_CHECKPOINT_RESTORE = 8, 40
RESTORES = r"""
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char **words)
{
	/* CRIU drops from the bounding set what a user's file does not have. */
	if (count < 2 || prctl(PR_CAPBSET_DROP, CAP_SETUID, 0, 0, 0))
		return 1;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	execv(words[1], words + 1);
	return 2;
}
"""
GIVES_UP_ROOT = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>
int main(void)
{
	uid_t real, effective, saved;
	int done = setuid(getuid());
	getresuid(&real, &effective, &saved);
	printf("%d: %u %u %u\n", done, real, effective, saved);
	return 0;
}
"""


def give_capabilities(path: Path, *numbers: int) -> None:
    """Set file capabilities, permitted and effective (struct vfs_cap_data)."""
    permitted = sum(1 << number for number in numbers)
    content = struct.pack("<5I", 0x02000001, permitted & 0xFFFFFFFF, 0, permitted >> 32, 0)
    os.setxattr(path, "security.capability", content)


@pytest.fixture
def folder(programs: Path) -> Iterator[Path]:
    """A folder that others may read, with run_criu, a program instead of CRIU, and a set-user-id program of root."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        made = Path(name)
        made.chmod(0o755)
        for program, source in (("criu", RESTORES), ("gives_up_root", GIVES_UP_ROOT)):
            (made / f"{program}.c").write_text(source)
            subprocess.run(["cc", "-o", made / program, made / f"{program}.c"], check=True)
        (made / "gives_up_root").chmod(0o4755)
        shutil.copy(programs / "run_criu", made / "run_criu")
        try:
            give_capabilities(made / "run_criu", CAP_SETPCAP, CAP_CHECKPOINT_RESTORE)
        except OSError as error:
            pytest.skip(f"skipped: this file system has no capabilities: {error.strerror}")
        yield made


def run(folder: Path, program: str) -> str:
    """What gives_up_root prints, started by a program in the folder as an unprivileged user."""
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    command = [*user, folder / program, folder / "gives_up_root"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr


def test_a_set_user_id_program_gets_no_rights_in_what_criu_restores(folder: Path) -> None:
    assert run(folder, "run_criu") == "0: 65534 65534 65534\n"
    # CRIU with capabilities of its own would leave it root's rights.
    give_capabilities(folder / "criu", CAP_SETPCAP)
    if (found := run(folder, "criu")) == "0: 65534 65534 65534\n":
        pytest.skip("skipped: set-user-id programs have no effect here")
    assert found == "0: 65534 65534 0\n"


def test_it_says_what_it_cannot_execute(folder: Path) -> None:
    (folder / "criu").unlink()
    assert run(folder, "run_criu") == f"run_criu: {folder}/criu: No such file or directory\n"
