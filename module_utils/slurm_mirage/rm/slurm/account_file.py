"""Lines of the file that `sacctmgr load` reads, and the words NAME=VALUE that sacctmgr(1) takes.

sacctmgr takes comments, continued lines and escapes out of a line, as Slurm does of slurm.conf, then takes it apart at the colons
outside of quotes (sacctmgr/file_functions.c, 22.05 to 26.05). It makes names small letters, and each quote inside of a value
another character (strip_quotes in its common.c).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...base import line_text
from ...base.errors import WrongUse

LONGEST = 4094
"""Bytes of a line without its end (BUFFER_SIZE): sacctmgr would take the rest for another line."""
_KEY = re.compile(r"[A-Za-z]+")
_NO_NAME = re.compile(r"""[\s,|"'=\\A-Z]""")


def check_name(where: str, name: str) -> str:
    """The name of a user, an account, a QOS or a partition. Raises WrongUse, beginning with `where`, for one that sacctmgr, which
    also takes lists of names, would not keep letter by letter, or with a backslash, at which slurmdbd ends (22.05)."""
    line_text.check(where, name)
    if not name or _NO_NAME.search(name):
        raise WrongUse(f"{where}: {name[:40]!r} is no name that sacctmgr keeps: one word in small letters without quotes , | = \\")
    return name


def check_value(where: str, value: str) -> str:
    """The value of an option. Raises WrongUse, beginning with `where`, for one with quotes, which sacctmgr changes."""
    line_text.check(where, value)
    if '"' in value or "'" in value:
        raise WrongUse(f"{where}: has quotes, which sacctmgr does not keep")
    return value


def line(kind: str, name: str, options: Mapping[str, str] | None = None) -> str:
    """`kind - 'name':option='value':...`, as sacctmgr reads it letter by letter. kind: Cluster, Parent, Account or User. Raises
    WrongUse."""
    words = [f"{kind} - '{check_name(kind.lower(), name)}'"]
    for key, value in (options or {}).items():
        if not _KEY.fullmatch(key):
            raise WrongUse(f"{kind.lower()} {name}: {key[:40]!r} is not an option of sacctmgr")
        words.append(f"{key}='{check_value(f'{kind.lower()} {name}: {key}', value)}'")
    text = re.sub(r"[\\#]", r"\\\g<0>", ":".join(words))
    if len(text.encode()) > LONGEST:
        raise WrongUse(
            f"{kind.lower()} {name}: its options are longer than {LONGEST} bytes, the most that sacctmgr reads of a line"
        )
    return text + "\n"
