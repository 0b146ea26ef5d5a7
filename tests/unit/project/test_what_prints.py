"""Text from outside is printed by base/printing.py, terminal/screen.py, terminal/console.py and text/markdown.py, which escape it.

Whatever else prints, or writes a text for people, is found in the source and has to be listed below with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("mirage", "studies", "benchmarks", "module_utils", "library", "files", "mirage_extras")
SOURCES = sorted(
    [
        *(path for name in FOLDERS for path in (ROOT / name).rglob("*.py") if "tests" not in path.parts),
        ROOT / "files/capture/mirage-capture",
    ]
)

IN_A_JOB = "a program of a job without this package, which writes into the job's own output"
READ_BY_A_PROGRAM = "a program reads it, and text in it is JSON"
ELSEWHERE = {
    ("module_utils/slurm_mirage/base/printing.py", "print"): "prints lines that it has escaped",
    ("module_utils/slurm_mirage/base/log_file.py", "FileHandler"): "writes lines that it has escaped",
    ("module_utils/slurm_mirage/base/log_file.py", "setFormatter"): "the same",
    ("module_utils/slurm_mirage/base/log_file.py", "basicConfig"): "the same",
    ("module_utils/slurm_mirage/programs/clock_answers.py", "print"): "the number of a port; " + READ_BY_A_PROGRAM,
    ("module_utils/slurm_mirage/programs/cloud_answers.py", "print"): READ_BY_A_PROGRAM,
    ("module_utils/slurm_mirage/programs/farm.py", "print"): READ_BY_A_PROGRAM,
    ("mirage/traces/parquet_trial.py", "print"): READ_BY_A_PROGRAM,
    ("mirage/terminal/screen.py", "sys.stdout"): "the stream of a screen, to which it writes lines that it has escaped",
    ("mirage/terminal/screen.py", "stream.write"): "the same",
    ("mirage/terminal/console.py", "Text"): "makes texts that it has escaped",
    ("mirage/text/markdown.py", "Markdown"): "escapes what is no literal",
    ("mirage/commands/watch.py", "sys.stdout"): "takes its descriptor from a reader that has gone",
    ("mirage/knobs/document.py", "print"): "writes a page of docs/ from a table of this program",
    ("benchmarks/submissions.py", "a file of text"): "the settings of a run, in JSON",
    ("files/capture/mirage-capture", "sys.stdout"): "one file for login nodes; its function say escapes",
    ("mirage_extras/malleable/files/dmr/dmr_run.py", "print"): IN_A_JOB,
    ("mirage_extras/malleable/files/dmr/dmr_run.py", "sys.stderr"): IN_A_JOB,
    ("mirage_extras/filler/files/filler_container/filler_container.py", "print"): IN_A_JOB,
    ("mirage_extras/filler/files/filler_container/filler_container.py", "sys.stderr"): IN_A_JOB,
    ("mirage_extras/filler/files/filler_container/filler_measure.py", "print"): "prints durations",
    ("mirage_extras/filler/files/filler_container/filler_measure.py", "sys.stderr"): "prints an error of its own call",
}
"""What prints without these functions: file and what it calls, with the reason."""

_LOGGING = {"basicConfig", "StreamHandler", "FileHandler", "addHandler", "setFormatter", "Formatter"}
_TRACES = {"print_exc", "print_exception", "print_last", "print_stack", "print_tb"}
_OF_RICH = {"Console", "Text"}
_ESCAPES = {"one_line", "log_text", "begin_log"}
_WRITES = {"write", "writelines", "write_text", "write_bytes", "write_atomically"}
_TEXTS = (".md", ".log")


def found_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of all in a module that prints, or writes text for people, in its own way."""
    of_rich = {
        one.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and "rich" in (node.module or "")
        for one in node.names
    }
    said = {id(word.value) for call in _calls(tree) if _name(call) == "say" for word in call.keywords if word.arg == "file"}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="sys"), attr=stream) if stream.strip("_") in ("stdout", "stderr"):
                if id(node) not in said:
                    yield node.lineno, f"sys.{stream}"
            case ast.ImportFrom(module="sys", names=names) if {"stdout", "stderr"} & {one.name for one in names}:
                yield node.lineno, "sys.stdout"
            case ast.ImportFrom(module="rich", names=names):
                yield from ((node.lineno, f"rich.{one.name}") for one in names if one.name in ("print", "print_json", "inspect"))
            case ast.Call():
                yield from ((node.lineno, what) for what in _prints(node) if what not in _OF_RICH or what in of_rich)
    others = {name for name, value in _constants(tree) if not value.endswith(_TEXTS)}
    yield from ((one.lineno, "a file of text") for one in ast.walk(tree) if _is_function(one) and _writes_text(one, others))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _prints(call: ast.Call) -> Iterator[str]:
    """What of a call prints by itself."""
    match call.func:
        case ast.Name(id="print" | "pprint" | "Console" | "Text" as name):
            yield name
        case ast.Attribute(value=ast.Name(id="Text"), attr=how):  # from_markup, from_ansi, assemble
            yield f"Text.{how}"
        case ast.Attribute(value=ast.Attribute(attr="stream") | ast.Name(id="stdout" | "stderr"), attr="write" | "writelines"):
            yield "stream.write"
        case ast.Attribute(value=ast.Name(id="os"), attr="write") if isinstance(call.args[0], ast.Constant):
            yield "os.write"
        case ast.Name(id="warn") | ast.Attribute(value=ast.Name(id="warnings"), attr="warn"):
            yield "warn"
    name = _name(call)
    if name in _LOGGING | _TRACES:
        yield name
    if name == "Markdown" and not (call.args and isinstance(call.args[0], ast.Constant)):
        yield "Markdown"


def _is_function(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef)


def _writes_text(node: ast.FunctionDef, others: set[str]) -> bool:
    """Whether a function writes a file for people without a call that escapes: its name is a literal, a constant or `log`.

    others: constants of the module that name other files
    """
    if not _WRITES & (called := {_name(call) for call in _calls(node)}) or _ESCAPES & called:
        return False
    names = {*(FILES_OF_TEXT - others), *(one.arg for one in ast.walk(node) if isinstance(one, ast.arg) and one.arg == "log")}
    for part in ast.walk(node):
        match part:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_text_file(value, names):
                names.add(name)
            case ast.withitem(context_expr=opened, optional_vars=ast.Name(id=name)) if _is_text_file(opened, names):
                names.add(name)
    return any(_name(call) in _WRITES and _called(call) != "markdown" and _is_text_file(call, names) for call in _calls(node))


def _is_text_file(part: ast.AST, names: set[str]) -> bool:
    """Whether an expression has one of these names, or the name of a text file."""
    return any(
        (isinstance(one, ast.Name) and one.id in names)
        or (isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.endswith(_TEXTS))
        for one in ast.walk(part)
    )


def _called(call: ast.Call) -> str:
    """The name before the point: `markdown` in `markdown.write(...)`."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=name)):
            return name
    return ""


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names and values of the constants of a module that are text."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)):
                yield name, text


TREES = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in SOURCES}
FILES_OF_TEXT = {name for tree in TREES.values() for name, text in _constants(tree) if text.endswith(_TEXTS)}
"""Names of constants whose value is the name of a file for people."""
FOUND = [(path, line, what) for path, tree in TREES.items() for line, what in found_in(tree)]


def test_all_that_prints_is_known() -> None:
    unknown = [f"{path}:{line}: {what}" for path, line, what in FOUND if (path, what) not in ELSEWHERE]
    assert not unknown, "printed without Screen, slurm_mirage.base.printing or mirage.text.markdown: " + ", ".join(unknown)


def test_each_exception_is_still_there() -> None:
    assert ELSEWHERE.keys() <= {(path, what) for path, _, what in FOUND}


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("print(name)", "print"),
        ("sys.stdout.write(name)", "sys.stdout"),
        ("say('a', file=sys.stderr); x = sys.__stderr__", "sys.__stderr__"),
        ("from sys import stdout", "sys.stdout"),
        ("os.write(1, name)", "os.write"),
        ("screen.stream.write(name)", "stream.write"),
        ("logging.basicConfig(level=1)", "basicConfig"),
        ("log.addHandler(handler)", "addHandler"),
        ("traceback.print_exc()", "print_exc"),
        ("warnings.warn(name)", "warn"),
        ("from rich import print", "rich.print"),
        ("from rich.console import Console\nConsole(file=file)", "Console"),
        ("from rich.text import Text\ntable.add_row(Text(name))", "Text"),
        ("Text.from_markup(name)", "Text.from_markup"),
        ("Markdown(f'# {name}')", "Markdown"),
        ("Markdown('# ' + name)", "Markdown"),
        ("def f():\n    (folder / 'gate.md').write_text(name)", "a file of text"),
        ("def f():\n    write_atomically(folder / GATE_FILE, text)", "a file of text"),
        ("def f():\n    path = folder / 'error.log'\n    path.write_text(name)", "a file of text"),
        ("def f(log):\n    with log.open('a') as stream:\n        stream.write(name)", "a file of text"),
    ],
)
def test_what_prints_is_found(source: str, what: str) -> None:
    assert what in [name for _, name in found_in(ast.parse(source))]


@pytest.mark.parametrize(
    "source",
    [
        "say(name, file=sys.stderr)",
        "screen.say(name)",
        "Markdown('# {}').format(name)",
        "os.write(descriptor, name)",
        "def f():\n    markdown.write(folder / GATE_FILE, lines)",
        "def f():\n    (folder / 'error.log').write_text(log_text(name))",
        "def f():\n    write_atomically(folder / 'jobs.csv', name)",
    ],
)
def test_what_escapes_or_is_data_is_not_found(source: str) -> None:
    assert list(found_in(ast.parse(source))) == []
