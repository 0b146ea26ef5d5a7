"""Command lines in the documents: their targets, knobs, values, playbooks, inventories, modules and scripts.

A command line is a line of a code block (without a language, or sh), of an indented block, or `inline code`. It begins with make,
mirage, python, pytest, ansible-playbook, a program of .venv/bin or a script of the checkout, also behind `$ `, assignments, or
another command and &&, | or ;. A page beside a Makefile may also name that Makefile's targets.

Placeholders stand for any value: `...`, words in capitals (NODES=N, OUT=FILE, benchmarks.PART), words with a $, and
inventories/mine, the reader's own inventory. Values of knobs are parsed, but files that they name need not exist. A line with the
comment `# wrong use` must be wrong.
"""

from __future__ import annotations

import functools
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from other_managers import SOURCES

from mirage.commands.main import TARGETS
from mirage.knobs import resolve
from mirage.knobs.resolve import STUDY_TARGET
from mirage.knobs.table import BY_NAME
from slurm_mirage.base.errors import WrongUse
from studies.__main__ import STUDIES

ROOT = Path(__file__).parents[3]
FOLDERS = ("docs", "studies", "files", "roles", "molecule", "examples", "benchmarks", "mirage_extras")
DOCUMENTS = [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
# Folders of Python packages, and the programs of .venv.
PACKAGES = (ROOT, ROOT / "module_utils", ROOT / "molecule")
PROGRAMS = Path(sys.executable).parent
OWN_INVENTORY = "inventories/mine"
# Knobs whose parser reads the file that the value names, or whose file is read with the other knobs.
FILES = ("CLASSES", "SLURM_CONF", *SOURCES)

FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*(?:\n|$))+")
COMMAND = re.compile(
    r"(?:^|&& |\| |; )(?:\$ )?(?:[A-Z_]+=\S+ )*"
    r"(?:make|mirage(?= [a-z-])|python3?|pytest|ansible-playbook|\.venv/bin/\S+|\.ci/run|tests/\S+\.sh)(?: |$)"
)
ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)


def commands(text: str) -> Iterator[str]:
    """The command lines of a document in Markdown. A line that ends with a backslash goes on."""
    outside = FENCED.sub("", text)
    blocks = [block for language, block in FENCED.findall(text) if language in ("", "sh")] + INDENTED.findall(outside)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    for line in (*lines, *re.findall(r"`([^`]+)`", INDENTED.sub("", outside))):
        line = " ".join(line.split())
        if COMMAND.search(line):
            yield line


def mistakes(line: str, folder: Path = ROOT) -> list[str]:
    """What is wrong in a command line of a document in `folder`."""
    try:
        return [mistake for words in _simple_commands(line) for mistake in _mistakes_of(words, folder)]
    except ValueError as error:
        return [f"is no line of sh: {error}"]


def _simple_commands(line: str) -> list[list[str]]:
    """The words of each command of a line of sh, without its comment and without redirections."""
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lists: list[list[str]] = [[]]
    redirected = False
    for word in lexer:
        if word in ("&&", "||", "|", ";", "&"):
            lists.append([])
        elif not redirected and word not in (">", ">>", "<"):
            lists[-1].append(word)
        redirected = word in (">", ">>", "<")
    return [words for words in lists if words]


def _mistakes_of(words: Sequence[str], folder: Path) -> list[str]:
    given = []
    while words and ASSIGNMENT.fullmatch(words[0]):
        # Variables of the environment that are no knobs are other programs'.
        given += [words[0]] if words[0].partition("=")[0] in BY_NAME else []
        words = words[1:]
    if not words:
        return []
    program, arguments = words[0].removeprefix(".venv/bin/"), words[1:]
    if program != words[0] and not (PROGRAMS / program).exists():
        return [f"{words[0]} does not exist"]
    if program == "make":
        return _mistakes_of_make([*given, *arguments], folder)
    if program == "mirage" or (program.startswith("python") and arguments[:2] == ["-m", "mirage"]):
        return _mistakes_of_mirage([*given, *(arguments if program == "mirage" else arguments[2:])])
    if program.startswith("python") and arguments[:1] == ["-m"]:
        return [f"there is no module {module}" for module in arguments[1:2] if not _is_module(module)]
    if program.startswith("python"):
        return _missing([word for word in arguments[:1] if word.endswith(".py")])
    if program == "pytest":
        return _missing([word.partition("::")[0] for word in arguments if "/" in word])
    if program == "ansible-playbook":
        return _missing([word for word in arguments if "=" not in word and ("/" in word or word.endswith(".yml"))])
    return _missing([program]) if program.endswith((".sh", ".ci/run")) else []


def _is_placeholder(word: str) -> bool:
    return "..." in word or "$" in word or word == OWN_INVENTORY or bool(re.fullmatch(r"[A-Z][A-Z_]*", word))


def _missing(paths: Sequence[str]) -> list[str]:
    """Paths below the checkout that do not exist. Options and placeholders are left out."""
    ours = [path for path in paths if not path.startswith(("/", "-")) and not _is_placeholder(path)]
    return [f"{path} does not exist" for path in ours if not (ROOT / path).exists()]


def _is_module(name: str) -> bool:
    """Whether it is a module of the project or of Python's library, or a placeholder."""
    if name.partition(".")[0] in sys.stdlib_module_names or _is_placeholder(name.rpartition(".")[2]):
        return True
    path = name.replace(".", "/")
    return any((package / end).exists() for package in PACKAGES for end in (f"{path}.py", f"{path}/__main__.py"))


def _mistakes_of_make(arguments: Sequence[str], folder: Path) -> list[str]:
    """Mistakes of a call of make, with the Makefile of `folder` or the one that -C names, or else of the checkout."""
    if arguments[:1] == ["-C"]:
        folder, arguments = ROOT / arguments[1], arguments[2:]
    targets = [word for word in arguments if not word.startswith("-") and not ASSIGNMENT.fullmatch(word) and "..." not in word]
    makefiles = [path for path in (folder / "Makefile", ROOT / "Makefile") if path.exists()]
    found = [f"make has no target {target}" for target in targets if not any(target in _targets(path) for path in makefiles)]
    used = frozenset(resolve.MAKE_VARIABLES).union(*(_variables(path, target) for path in makefiles for target in targets))
    for study in [word.partition("=")[2] for word in arguments if word.startswith("STUDY=")]:
        used |= _knobs_of(STUDY_TARGET + study)
        found += [f"there is no study {study}"] if study not in STUDIES else []
    return found or _mistakes_of_variables(arguments, " ".join(["make", *targets]), used)


def _mistakes_of_mirage(arguments: Sequence[str]) -> list[str]:
    """Mistakes of a call of the program behind make, which has one target."""
    target = next((word for word in arguments if not word.startswith("-") and not ASSIGNMENT.fullmatch(word)), "TARGET")
    if _is_placeholder(target) or target == "help":
        return []
    if target not in TARGETS:
        return [f"mirage has no target {target}"]
    return _mistakes_of_variables(arguments, f"mirage {target}", _knobs_of(target))


def _mistakes_of_variables(arguments: Sequence[str], command: str, used: frozenset[str]) -> list[str]:
    """Mistakes of the words NAME=value of a command that uses the variables `used`."""
    found = []
    for name, value in (match.groups() for word in arguments if (match := ASSIGNMENT.fullmatch(word))):
        if name not in used:
            found.append(f"{command} does not use {name}")
        elif name == "FAULTS":
            found += [f"there is no fault {word}" for word in value.split() if word not in _faults()]
        elif name in BY_NAME and name not in FILES and not _is_placeholder(value):
            try:
                resolve.parse(name, value)
            except WrongUse as error:
                found.append(str(error))
    return found


def _knobs_of(target: str) -> frozenset[str]:
    return frozenset(name for name, knob in BY_NAME.items() if target in knob.targets)


@functools.cache
def _targets(makefile: Path) -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z][a-z-]*) *:(?!=)", makefile.read_text(), re.MULTILINE))


@functools.cache
def _variables(makefile: Path, target: str) -> frozenset[str]:
    """The knobs that a target uses, and the variables that its recipe reads, or the Python code that the recipe runs."""
    recipe = "".join(re.findall(rf"^{re.escape(target)} *:.*\n((?:\t.*\n)*)", makefile.read_text(), re.MULTILINE))
    names = set(re.findall(r"\$[({]([A-Z_]+)", recipe))
    for word in re.findall(r"\b(?:tests|benchmarks|studies)\b[\w./]*", recipe):
        place = ROOT / word.removesuffix(".sh").replace(".", "/")
        for path in (place.with_suffix(".py"), *place.rglob("*.py")):
            names |= set(re.findall(r"environ\b[\w.]*[\[(]['\"]([A-Z_]+)", path.read_text())) if path.exists() else set()
    return _knobs_of(target) | names


@functools.cache
def _faults() -> frozenset[str]:
    code = "".join(
        path.read_text() for path in [*(ROOT / "tests/faults").glob("*.py"), *ROOT.glob("mirage_extras/*/tests/faults.py")]
    )
    return frozenset(re.findall(r"@fault\(\s*\"([\w-]+)\"", code))


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_command_lines_are_right(page: Path) -> None:
    wrong = []
    for line in commands(page.read_text()):
        found = mistakes(line, page.parent)
        if "# wrong use" in line:
            found = [] if found else ["is right, but its comment says wrong use"]
        wrong += [f"{line}: {mistake}" for mistake in found]
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("make experimant", "make has no target experimant"),
        ("make lint experimant", "make has no target experimant"),
        ("make experiment NODE=100", "make experiment does not use NODE"),
        ("make report NODES=100", "make report does not use NODES"),
        ("make faults NODES=100", "make faults does not use NODES"),
        ("make study STUDY=scm", "there is no study scm"),
        ("make faults FAULTS='key-short no-fault'", "there is no fault no-fault"),
        ("make experiment NODES=0", "NODES: '0' is not possible; it may be a whole number from 1 to 1000000"),
        ("make compare CONFIGS=fifo ...", "CONFIGS: 'fifo' is not possible; it may be"),
        ("SPEED=fast make cluster", "SPEED: 'fast' is not possible"),
        ("$ make metrics TRACE=log TAU=-1", "TAU: '-1' is not possible"),
        ("cd slurm-mirage && make units", "make has no target units"),
        ("make watch CPUS=4 | tee log", "make watch does not use CPUS"),
        ("make -C files/sigsleep experimant", "make has no target experimant"),
        (".venv/bin/python -m mirage experimant", "mirage has no target experimant"),
        ("mirage metrics TRACE=log NODES=none", "NODES: 'none' is not possible"),
        (".venv/bin/python -m mirage.knobs.documents > docs/knobs.md", "there is no module mirage.knobs.documents"),
        ("python3 -m slurm_mirage.programs.play RUNDIR", "there is no module slurm_mirage.programs.play"),
        ("python benchmarks/nothing.py", "benchmarks/nothing.py does not exist"),
        (".venv/bin/nothing --help", ".venv/bin/nothing does not exist"),
        (".venv/bin/pytest tests/unit/nothing -k NAME", "tests/unit/nothing does not exist"),
        ("ansible-playbook sites.yml -e mirage_nodes=100", "sites.yml does not exist"),
        ("ansible-playbook -i inventories/nothing site.yml", "inventories/nothing does not exist"),
        ("tests/nothing.sh", "tests/nothing.sh does not exist"),
        ("make cluster CLUSTER='mine", "is no line of sh: No closing quotation"),
    ],
)
def test_a_mistake_is_named(line: str, mistake: str) -> None:
    found = mistakes(line)
    assert len(found) == 1
    assert found[0].startswith(mistake)


@pytest.mark.parametrize(
    "line",
    [
        "make",
        "make bench...",
        "make lint unit",
        'make experiment NODES=N TRACE=log SHRINK=100:50:10 MODEL=NAME CLASSES=no-such.yml ... # "quoted"',
        'make compare CONFIGS="fifo backfill" MARGIN=10% INVENTORY=inventories/mine',
        "make study STUDY=scms SLURM_SOURCE=archive",
        "make faults FAULTS=clock-many-kills COUNT=450 PYTHON=python3.12",
        "make bench PART=resize FULL=yes",
        "make infra NODES=20 BED=mybed",
        "make -C files/sigsleep sanitize",
        "SLURM_MIRAGE_INSTANCE=/var/lib/slurm-mirage/fe .venv/bin/pytest -m cluster tests/cluster/test_front_ends.py",
        "ansible-playbook -i inventories/common -i INVENTORY mirage_extras/filler/playbooks/filler_container.yml --check",
        ".venv/bin/python -m benchmarks.PART SIZES",
        "python3 $P/filler_container.py check",
        "mirage --help",
        ".ci/run",
    ],
)
def test_a_right_line_has_no_mistake(line: str) -> None:
    assert mistakes(line) == []


def test_a_page_beside_a_makefile_names_its_targets() -> None:
    assert mistakes("make sanitize", ROOT / "files/sigsleep") == []
    assert mistakes("make sanitize OUT=DIR", ROOT / "docs") == ["make has no target sanitize"]


def test_command_lines_of_a_document() -> None:
    document = """\
Ctrl-C ends `make watch`; `make` and `.ci/run`, but not `make-killed`, `mirage` and `mirage 1 check JOB`: a wrapped `make
teardown`.

    $ make cluster NODES=4   # a comment
    it makes

```sh
make compare RUN=a \\
    REPLICAS=2
```

```yaml
make: no
```

```
make and what it prints
 make
```
"""
    assert list(commands(document)) == [
        "make compare RUN=a REPLICAS=2",
        "make and what it prints",
        "make",
        "$ make cluster NODES=4 # a comment",
        "make watch",
        "make",
        ".ci/run",
        "make teardown",
    ]
