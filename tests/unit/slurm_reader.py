"""How Slurm reads slurm.conf: a reading of its parser (common/parse_config.c) and the parser itself, by its library if it is
installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/slurm*/libslurmfull.so"))), None)
"""The library that has the parser of all of Slurm's programs."""

_BLANKS = b" \t\n\v\f\r"  # isspace(3)
_WORD = re.compile(rb"[ \t\n\v\f\r]*([A-Za-z0-9_.]+)[ \t\n\v\f\r]*[-*+/]?=[ \t\n\v\f\r]*")
_QUOTED, _PLAIN = (re.compile(form) for form in (rb'"([^"]*)"(?=[ \t\n\v\f\r]|\Z)', rb"([^ \t\n\v\f\r]+)(?=[ \t\n\v\f\r]|\Z)"))


def logical_lines(data: bytes) -> Iterator[bytes]:
    """The lines after comments, continued lines and escapes were taken out (_get_next_line). `sacctmgr load` has the same."""
    waiting = b""
    for line in re.findall(rb"[^\n]*\n|[^\n]+", data):
        line = line.partition(b"\0")[0]
        comment = re.match(rb"(?:[^\\#]|\\.?)*", line, re.DOTALL)
        assert comment is not None
        line = comment[0]
        end = line.rstrip(_BLANKS)
        if (len(end) - len(end.rstrip(b"\\"))) % 2:
            waiting += end[:-1]
            continue
        yield re.sub(rb"\\(.?)", rb"\1", waiting + line, flags=re.DOTALL)
        waiting = b""
    if waiting:
        yield re.sub(rb"\\(.?)", rb"\1", waiting, flags=re.DOTALL)


def words(text: str) -> list[list[tuple[str, str]]]:
    """Keys and values of each line that is not empty; in a file of settings a line has one. Raises ValueError for anything else."""
    lines = []
    for line in logical_lines(text.encode()):
        pairs: list[tuple[str, str]] = []
        rest = line
        while (key := _WORD.match(rest)) is not None:
            # The longest match counts, and of two of one length the first alternative (POSIX).
            found = [match for form in (_QUOTED, _PLAIN) if (match := form.match(rest, key.end())) is not None]
            if not found:
                break
            value = max(found, key=lambda match: match.end())
            pairs.append((key[1].decode(), value[1].decode()))
            rest = rest[value.end() :]
        if rest.strip(_BLANKS):
            raise ValueError(f"{rest!r} is no word")
        if pairs:
            lines.append(pairs)
    return lines


# Reads a file with the parser: the settings whose keys are given, and the words of lines that begin with LINE.
_PROGRAM = """
import ctypes, json, os, sys
slurm = ctypes.CDLL(sys.argv[1], os.RTLD_DEEPBIND)
TEXT, POINTER = ctypes.c_char_p, ctypes.c_void_p
class Option(ctypes.Structure):
    pass
Option._fields_ = [("key", TEXT), ("type", ctypes.c_int), ("handler", POINTER), ("destroy", POINTER),
    ("words", ctypes.POINTER(Option))]
slurm.s_p_hashtbl_create.argtypes, slurm.s_p_hashtbl_create.restype = [POINTER], POINTER
slurm.s_p_parse_file.argtypes = [POINTER, POINTER, TEXT, ctypes.c_bool, TEXT]
slurm.s_p_get_string.argtypes = [ctypes.POINTER(TEXT), TEXT, POINTER]
slurm.s_p_get_line.argtypes = [ctypes.POINTER(ctypes.POINTER(POINTER)), ctypes.POINTER(ctypes.c_int), TEXT, POINTER]
STRING, LINE = 1, 9
asked = json.loads(sys.argv[3])
def options(keys, *more):
    made = [Option(key.encode(), STRING) for key in keys] + [*more, Option()]
    return (Option * len(made))(*made)
def texts(table, keys):
    found = {}
    for key in keys:
        value = TEXT()
        if slurm.s_p_get_string(ctypes.byref(value), key.encode(), table):
            found[key] = value.value.decode()
    return found
of_lines = {key: options(keys) for key, keys in asked["lines"].items()}
named = [Option(key.encode(), LINE, None, None, of) for key, of in of_lines.items()]
table = slurm.s_p_hashtbl_create(options(asked["keys"], *named))
code = slurm.s_p_parse_file(table, None, sys.argv[2].encode(), False, None)
lines = []
for key, keys in asked["lines"].items():
    array, count = ctypes.POINTER(POINTER)(), ctypes.c_int()
    if slurm.s_p_get_line(ctypes.byref(array), ctypes.byref(count), key.encode(), table):
        lines += [{**texts(array[number], [key, *keys])} for number in range(count.value)]
print(json.dumps({"good": code == 0, "settings": texts(table, asked["keys"]), "lines": lines}))
"""


def read_by_slurm(
    path: Path, keys: list[str], lines: Mapping[str, list[str]] | None = None, locale: str = "C"
) -> dict[str, object]:
    """What Slurm's library reads of a file: `good` (whether without an error), `settings` by key, and `lines`, the words of each
    line that begins with one of the keys of `lines`; a key or a word that is not expected is an error.

    locale: C, as in all of Slurm's own programs
    """
    assert LIBRARY is not None
    environment = {"LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "1"}
    asked = {"keys": keys, "lines": {key: [key, *words] for key, words in (lines or {}).items()}}
    command = [sys.executable, "-c", _PROGRAM, str(LIBRARY), str(path), json.dumps(asked)]
    result: dict[str, object] = json.loads(
        subprocess.run(command, capture_output=True, env=environment, text=True, check=True).stdout
    )
    return result
