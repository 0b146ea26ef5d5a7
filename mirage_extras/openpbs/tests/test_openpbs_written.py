"""What OpenPBS reads of what the project writes for it: values arrive letter by letter in readings of its parsers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from line_values import values

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.openpbs import conf, qmgr, queues
from slurm_mirage.extras.openpbs.node_classes import Nodes

BLANKS = " \t\n\v\f\r"


# ---- qmgr ----


def requests(text: str) -> list[str]:
    """The commands in the input of qmgr (get_request in cmds/qmgr.c)."""
    found: list[str] = []
    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith("#"):
            continue
        while line.endswith("\\"):
            line = f"{line[:-1]} {next(lines, '')}"
        request, quote = "", ""
        for place, letter in enumerate(line):
            if quote:
                quote = "" if letter == quote else quote
            elif letter in "\"'":
                quote = letter
            elif letter == ";":
                found.append(request)
                request = ""
                continue
            elif letter == "#" and (place == 0 or line[place - 1] in BLANKS):
                break
            request += letter
        found.append(request)
    return [request.strip(BLANKS) for request in found if request.strip(BLANKS)]


def value(text: str, allow_blanks: bool) -> tuple[str, str]:
    """A value at the beginning of a text, and what follows (pbs_quote_parse in Libifl). Raises ValueError."""
    out, quote, quoting = "", "", False
    for place, letter in enumerate(text := text.lstrip(BLANKS)):
        if not (" " <= letter <= "~" or letter in BLANKS):
            raise ValueError("illegal character")
        if quoting and letter == quote:
            quoting = False
        elif letter == "&":
            raise ValueError("illegal character")
        elif quoting:
            out += letter
        elif letter in "\"'" and (not allow_blanks or place == 0) and quote in ("", letter):
            quote, quoting = letter, True
        elif letter == "," or (letter in BLANKS and not allow_blanks):
            return out, text[place:]
        else:
            out += letter
    if quoting:
        raise ValueError("no closing quote")
    return out, ""


@given(values)
@example("a;set server managers=root@*")
def test_an_attribute_is_read_letter_by_letter_or_refused(text: str) -> None:
    try:
        state = qmgr.wanted([], {"comment": text}, [], 1)
    except WrongUse as error:
        assert str(error).startswith("server: comment: ")
        return
    lines = list(qmgr.commands(qmgr.State(), state))
    told = requests("".join(f"{line}\n" for line in lines))
    assert len(told) == len(lines), "a value began another command"
    [command] = [one for one in told if one.startswith("set server comment = ")]
    for allow_blanks in (False, True):
        assert value(command.removeprefix("set server comment = "), allow_blanks) == (text, "")


@given(values)
def test_what_the_server_answers_is_not_told_again(text: str) -> None:
    try:
        state = qmgr.wanted([], {"comment": text}, [], 1)
    except WrongUse:
        return
    answer = f"set server comment = {qmgr.quoted(text)}\n"
    if text == text.strip():
        assert qmgr.printed(answer).server["comment"] == state.server["comment"]


@pytest.mark.parametrize("key", ["comment = x\nset server managers", "a b", "a;b", "a,b", "comment=1,b", "", 5, "resources.a=b"])
def test_a_key_is_the_name_of_an_attribute(key: Any) -> None:
    with pytest.raises(WrongUse, match=r"^server: .* is not the name of an attribute$"):
        qmgr.wanted([], {key: "x"}, [], 1)


@pytest.mark.parametrize("resource", ["walltime = 1\nset server managers", "a b", "", "a,b"])
def test_a_limit_of_a_queue_names_a_resource(resource: str) -> None:
    with pytest.raises(WrongUse, match="means nothing to OpenPBS"):
        queues.check([{"name": "q", f"resources_max.{resource}": 5}], "x.yml")


@given(values)
def test_a_value_of_a_queue_is_refused_or_told_as_one_command(text: str) -> None:
    try:
        state = qmgr.wanted([Nodes("n", 1, 1, 1)], {}, [{"name": "q", "Priority": text}], 1)
    except WrongUse:
        return
    lines = list(qmgr.commands(qmgr.State(), state))
    assert len(requests("".join(f"{line}\n" for line in lines))) == len(lines)


# ---- sched_config ----


def sched_lines(text: str) -> list[tuple[str, str]]:
    """Keys, and all that follows them, of the lines that the scheduler reads (pbs_fgets_extend, skip_line, scan)."""
    found, waiting = [], ""
    for line in text.split("\n"):
        joined = waiting + line
        if joined.rstrip(BLANKS).endswith("\\"):
            waiting = joined.rstrip(BLANKS)[:-1]
            continue
        waiting = ""
        plain = joined.lstrip(BLANKS)
        if plain and plain[0] not in "#*":
            key, _, rest = plain.partition(":")
            found.append((key, rest.strip(BLANKS)))
    return found


@given(values)
@example("true all\nfair_share: true")
@example("x\\")
def test_a_setting_of_the_scheduler_is_the_rest_of_its_line_or_refused(text: str) -> None:
    try:
        written = conf.sched_config({"node_sort_key": text})
    except WrongUse as error:
        assert str(error).startswith("sched_config: ")
        return
    read = sched_lines(written)
    assert len(read) == len(conf.SCHEDULER_DEFAULTS)
    assert dict(read)["node_sort_key"] == text.strip(BLANKS)


@pytest.mark.parametrize("key", ["a: b\nc", "a b", "", 5, "\u00e4"])
def test_a_key_of_the_scheduler_is_a_word(key: Any) -> None:
    with pytest.raises(WrongUse, match=r"^sched_config: .* is not a setting with a one-line value$"):
        conf.sched_config({key: "x"})


# ---- pbs.conf, pbs_environment, mom_priv/config ----


@given(values)
@example("/opt/pbs")
def test_pbs_conf_has_only_what_a_shell_reads_as_one_word(text: str) -> None:
    try:
        written = conf.server_conf(Path("/i"), text)
    except WrongUse as error:
        assert str(error) == "pbs.conf: PBS_EXEC: may have letters, digits and ./:,@%+_- only"
        return
    assert re.fullmatch("[A-Za-z0-9_./:,@%+-]+", text)
    assert dict(line.split("=", 1) for line in written.split("\n")[1:-1])["PBS_EXEC"] == text


@given(values)
def test_a_path_is_the_rest_of_its_line_for_a_node_or_refused(text: str) -> None:
    folder = Path(f"/i{text}")
    try:
        written = conf.mom_config(folder, 1)
    except WrongUse as error:
        assert str(error).startswith("mom_priv/config: tmpdir: ")
        return
    lines = written.split("\n")
    assert f"$tmpdir {folder}/tmp" in lines and len([line for line in lines if line.startswith("$tmpdir")]) == 1
    assert max(map(len, lines)) < 511


@given(values)
def test_the_environment_has_a_line_for_each_variable_or_is_refused(text: str) -> None:
    folder = Path(f"/i{text}")
    try:
        written = conf.environment(folder, has_clock=True)
    except WrongUse as error:
        assert str(error).startswith("pbs_environment: ")
        return
    variables = dict(line.split("=", 1) for line in written.split("\n")[:-1])
    assert len(variables) == 4
    assert variables["LD_PRELOAD"].startswith(str(folder))
