"""The script that builds OpenPBS, run with small archives: what it leaves, and what it reports in one line."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "roles/openpbs/files/build.sh"
INIT = "AC_INIT([OpenPBS],\n  [{}],\n  [pbssupport@altair.com])\n"
MAKEFILE = """\
all:
\t{all}
install:
\tmkdir -p $(DESTDIR)@prefix@/sbin $(DESTDIR)@prefix@/lib $(DESTDIR)@prefix@/unsupported $(DESTDIR)/etc
\tcp /bin/true $(DESTDIR)@prefix@/sbin/pbs_server.bin
\ttouch $(DESTDIR)@prefix@/lib/libpbs.la $(DESTDIR)@prefix@/lib/libpbs.so $(DESTDIR)@prefix@/unsupported/pbs_dtj
"""
CONFIGURE = """\
#!/bin/sh
for word; do case $word in --prefix=*) prefix=${word#*=} ;; esac; done
echo "$@" >given
sed "s,@prefix@,$prefix,g" Makefile.in >Makefile
"""


def build(folder: Path, version: str, files: dict[str, str], prefix: str = "/opt/test/openpbs") -> subprocess.CompletedProcess[str]:
    """Run the script in `folder` with an archive of these files, whose mode is 0755."""
    folder.mkdir()
    with tarfile.open(folder / "archive", "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    command = [str(SCRIPT), str(folder), version, prefix, "--without-x"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def source(make_all: str, release: str = "23.06.06", top: str = "openpbs-abc/") -> dict[str, str]:
    """Files of an archive whose target `all` runs the given command."""
    return {
        f"{top}configure.ac": INIT.format(release),
        f"{top}autogen.sh": "#!/bin/sh\n",
        f"{top}configure": CONFIGURE,
        f"{top}Makefile.in": MAKEFILE.format(all=make_all),
    }


def test_only_what_runs_is_left(tmp_path: Path) -> None:
    done = build(tmp_path / "a", "23.06.06", source("true"))
    assert (done.returncode, done.stderr) == (0, "")
    root = tmp_path / "a/root"
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    assert files == ["opt/test/openpbs/lib/libpbs.so", "opt/test/openpbs/sbin/pbs_server.bin"]
    given = (tmp_path / "a/unpacked/openpbs-abc/given").read_text().split()
    assert "--with-pbs-conf-file=/opt/test/openpbs/etc/pbs.conf" in given
    assert given[-1] == "--without-x"


@pytest.mark.parametrize(
    ("version", "files", "message"),
    [
        ("23.06.06", {"other/README": "x"}, "the archive contains no source of OpenPBS (there is no configure.ac with its name)"),
        ("23.06.06", {"s/configure.ac": "AC_INIT([slurm], [23.06.06])\n"}, "the archive contains no source of OpenPBS"),
        ("23.06.06", source("true", release="22.05.11"), "the archive contains 22.05.11"),
    ],
)
def test_another_archive_is_refused(tmp_path: Path, version: str, files: dict[str, str], message: str) -> None:
    done = build(tmp_path / "a", version, files)
    assert done.returncode == 1
    assert done.stderr.startswith(f"wrong use: openpbs_version={version}: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_a_commit_too_old_for_the_hosts_python_is_recognised(tmp_path: Path) -> None:
    """Python 3.11 has no eval.h any more; the compiler's message is that of tag v23.06.06."""
    files = source("cc -c external.c") | {"openpbs-abc/external.c": "#include <eval.h>\n"}
    done = build(tmp_path / "a", "23.06.06", files)
    assert done.returncode == 1
    assert done.stderr.startswith("make: this commit does not compile with Python 3.11 or later, and this host has Python 3.")
    assert "take an archive of a newer commit" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_another_error_of_the_build_is_reported_as_it_is(tmp_path: Path) -> None:
    files = source("cc -c external.c") | {"openpbs-abc/external.c": "int f(void) { return g; }\n"}
    done = build(tmp_path / "a", "23.06.06", files)
    assert done.returncode == 1
    assert done.stderr.startswith("make: external.c:1:")
    assert "error:" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "a/make.log").read_text()
