"""RUN_FILE: the knobs of a run as a file, `NAME: value` a line (YAML). A run writes one, from which the same run can be made again.

Another user may have written such a file. It is data: at most LARGEST bytes, one mapping of names of knobs to texts, which are what
the user would type (`yes`, `1e3` and `2026-03-01` stay as they are). It is read as events of the YAML parser; nothing is built of
them. A knob whose file is run or written (`ONLY_GIVEN`), or outside of the current folder, has to be given to make too.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import GIVEN, OF_FILE, SLURM_VARIABLES, parse, resolve
from mirage.knobs.table import BY_NAME
from mirage.text.input_file import read_input
from slurm_mirage.base.errors import WrongUse

KNOB = "RUN_FILE"
LARGEST = 64 << 10
"""Bytes."""
_RUN, _WRITTEN = "what is in its file is run", "it names a file to write"
_OUTSIDE = "it names a file outside of this folder"
ONLY_GIVEN = {
    **dict.fromkeys(("INVENTORY", "EVENTS", "SLURMS", *(name for name in BY_NAME if name.endswith("_SOURCE"))), _RUN),
    **dict.fromkeys(("OUT", "ARCHIVE"), _WRITTEN),
}
"""Knobs that a file may have only beside the same knob given to make, whose value counts; and why."""
WRITTEN_FOR = ("experiment", "compare", "gate", "search", "predict")
"""Targets whose runs write such a file."""
_OF_RESULTS = ("RUN", "RUNS", "JOB", "OUT", "ARCHIVE", KNOB)
"""Knobs that name results or files to write, and do not describe a run."""
_SHOWN = 60  # characters of a name in a message
_MAY_BE = "it may be a knob in each line, as in NODES: 100"


def read(path: str, given: Callable[[str], bool] = lambda _: False) -> dict[str, str]:
    """The texts of the knobs in the file `path`, by name. given: whether a knob is given otherwise, so that the file's text of it
    does not count.

    Raises WrongUse with the file, its line and the knob.
    """
    import yaml  # 10 ms that calls without such a file save

    try:
        content = read_input(path, KNOB.lower(), LARGEST).decode()
        if not content:  # also a file of the kernel
            raise _wrong(path, f"is empty; {_MAY_BE}")
        return _texts(path, yaml.parse(content, Loader=yaml.BaseLoader), yaml, given)
    except UnicodeDecodeError as error:
        raise _wrong(path, f"is not UTF-8 (byte {error.start + 1})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise _wrong(f"{path}{f' line {mark.line + 1}' if mark else ''}", f"is not YAML; {_MAY_BE}") from None


def _wrong(place: str, words: str) -> WrongUse:
    return WrongUse(f"{place}: {words}", parameter=KNOB.lower())


def _texts(path: str, events: Iterator[Any], yaml: Any, given: Callable[[str], bool]) -> dict[str, str]:
    """The texts of `read` from the events of a YAML parser."""
    texts: dict[str, str] = {}
    name, is_open, documents = None, False, 0
    for event in events:
        place = f"{path} line {event.start_mark.line + 1}"
        what = "the file" if name is None else name
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _wrong(place, "begins a second document; a file may have one")
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _wrong(place, f"{what}: has an anchor or an alias; a knob has a plain value")
        elif getattr(event, "tag", None) is not None:
            raise _wrong(place, f"{what}: has a tag; a knob has a plain value")
        elif isinstance(event, yaml.MappingStartEvent) and not is_open:
            is_open = True
        elif isinstance(event, yaml.CollectionStartEvent):
            raise _wrong(place, f"{what}: is a list or a mapping; {_MAY_BE}")
        elif isinstance(event, yaml.ScalarEvent):
            if not is_open:
                if event.value == "" and event.implicit[0]:
                    continue  # a file without knobs
                raise _wrong(place, f"is a text; {_MAY_BE}")
            if name is None:
                name = _name(place, event.value, texts)
                continue
            texts[name], name = _value(place, name, event.value), None
            last = next(reversed(texts))
            if (why := _only_given(last, texts[last])) and not given(last):
                raise _wrong(place, f"{last}: {why}, so give it to make too: {last}={texts[last]}")
    return texts


def _only_given(name: str, text: str) -> str:
    """Why a file may not decide this knob; "" if it may. It may name files below the current folder, which are the caller's."""
    words = re.split(r"[\s=,:]+", text)
    is_outside = any(word.startswith("/") or ".." in word.split("/") for word in words)
    return ONLY_GIVEN.get(name) or (_OUTSIDE if is_outside else "")


def _name(place: str, name: str, texts: Mapping[str, str]) -> str:
    """The name of a knob. Raises WrongUse for another name, and for one that the file has already."""
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
    if name == KNOB:
        raise _wrong(place, f"{name}: a file cannot name another one")
    if name not in BY_NAME:
        near = difflib.get_close_matches(name.upper()[:_SHOWN], BY_NAME, n=1, cutoff=0.5)
        raise _wrong(place, f"{shown}: there is no such knob{f'; did you mean {near[0]}?' if near else ''}")
    if name in texts:
        raise _wrong(place, f"{name}: is there twice")
    return name


def _value(place: str, name: str, text: str) -> str:
    """The text of a knob. Raises WrongUse for one that no command line can have."""
    try:
        fits = "\0" not in text and os.fsencode(text) is not None
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise _wrong(place, f"{name}: has a character that no knob can have")
    return text


def apply(environ: MutableMapping[str, str], target: str, reader: Callable[..., dict[str, str]] = read) -> None:
    """Add the knobs of RUN_FILE to the environment, if the target uses it: those that are not given to make, and not set in the
    environment. Knobs that are there already from the file stay.

    reader: `read`, or what calls it in a process with fewer rights. Raises WrongUse as `read` does.
    """
    path = environ.get(KNOB, "")
    if not path or target not in BY_NAME[KNOB].targets or OF_FILE in environ:
        return
    given = environ.get(GIVEN, "").split()

    def is_given(name: str) -> bool:
        return name in given or (bool(environ.get(name)) and name not in SLURM_VARIABLES)

    texts = {name: text for name, text in reader(path, is_given).items() if name in BY_NAME and not is_given(name)}
    texts = {name: text for name, text in texts.items() if not _only_given(name, text)}
    environ.update({**texts, GIVEN: " ".join([*given, *texts]), OF_FILE: " ".join(texts)})


def to_write(environ: Mapping[str, str], knobs: Knobs, target: str) -> dict[str, str]:
    """The texts, as given, of the knobs that describe a run and without which it would be another one, by name. knobs: those of the
    environment

    A value that equals the table's default is kept if it replaces another default: that of the inventory, of SITE, of CONFIG.
    """
    given = {name: environ[name] for name in BY_NAME if name not in _OF_RESULTS and environ.get(name)}
    for name in SLURM_VARIABLES:
        if name not in environ.get(GIVEN, "").split():
            given.pop(name, None)
    has_inventory = not knobs.is_default("INVENTORY")
    kept = {}
    for name, text in given.items():
        knob = BY_NAME[name]
        is_default = parse(name, text) == parse(name, knob.default)
        if not is_default or (has_inventory and knob.variable) or resolve({**environ, name: ""}, target) != knobs:
            kept[name] = os.path.relpath(text) if _is_below(text) else text
    return kept


def _is_below(path: str) -> bool:
    """Whether this is the absolute path of something below the current folder."""
    return path.startswith("/") and Path(path).is_relative_to(Path.cwd())


def as_yaml(texts: Mapping[str, str]) -> str:
    """The content of a file with these knobs, which `read` reads back."""
    import yaml

    # The emitter takes some characters, such as U+0085, for line breaks, and leaves them as they are outside of double quotes.
    styles = {True: None, False: '"'}
    words = [text for pair in texts.items() for text in pair]
    scalars = [yaml.ScalarEvent(None, None, (True, True), text, style=styles[text.isprintable()]) for text in words]
    mapping = [yaml.MappingStartEvent(None, None, True, flow_style=False), *scalars, yaml.MappingEndEvent()]
    document = [yaml.DocumentStartEvent(), *mapping, yaml.DocumentEndEvent()]
    content: str = yaml.emit([yaml.StreamStartEvent(), *document, yaml.StreamEndEvent()], width=1 << 20, allow_unicode=True)
    return content
