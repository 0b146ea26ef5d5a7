"""Reads a script of sacctmgr(1) commands beside slurm.conf: the users, accounts and QOS that `sacctmgr -i < sacctmgr.script` makes.

    add qos Name=long Priority=200
    add account Name=lab Parent=root Fairshare=100
    add user Name=ann Account=lab Fairshare=parent
    modify user where name=ann set qos=long,normal

`add` (`create`), `modify` and `remove` (`delete`) of accounts, users, QOS and the cluster are carried out in their order, on an
empty database; other commands, such as `list`, change nothing. As in slurm.conf, messages name the line and quote no value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from mirage.site import associations
from mirage.site.associations import OF_ASSOCIATIONS, OF_QOS, ROOT, SUBMISSION, SiteAccounts
from mirage.site.conf_lines import ConfFiles
from slurm_mirage.base.errors import WrongUse

SCRIPT = "sacctmgr.script"
NOT_READ = "the reader of sacctmgr's scripts does not know it"

_ADD, _MODIFY, _REMOVE = ("add", "create"), ("modify", "update"), ("remove", "delete")
_ENTITIES = {"account": "account", "accounts": "account", "user": "user", "users": "user", "qos": "qos", "cluster": "cluster"}
_WORD = re.compile(r"""([A-Za-z]+)\s*([-+]?)=\s*("[^"]*"|'[^']*'|\S*)|([A-Za-z]+)(?=\s|\Z)""", re.ASCII)
_COMMAND = re.compile(r"\s*([A-Za-z]+)(?:\s+([A-Za-z]+))?(.*)", re.ASCII)
_HEADINGS = {
    **{option.lower(): heading for heading, option in (*OF_ASSOCIATIONS.items(), *OF_QOS.items())},
    "qoslevel": "qos", "fairshare": "share", "maxsubmitjobs": "maxsubmit", "maxsubmitjobsperuser": "maxsubmitpu",
    "maxsubmitjobsperaccount": "maxsubmitpa", "grpsubmitjobs": "grpsubmit", "maxtres": "maxtres", "maxwall": "maxwall",
}  # fmt: skip
"""Headings of sacctmgr's tables by its options in small letters."""
_NAMES = ("name", "names")
_IDLE = ("description", "organization", "adminlevel", "immediate")
"""Options without effect on jobs."""

_Row = dict[str, str]


@dataclass
class _Database:
    """What the commands so far have made. Rows have the headings of sacctmgr's tables, and `line`."""

    accounts: dict[str, _Row] = field(default_factory=dict)
    users: dict[tuple[str, str], _Row] = field(default_factory=dict)
    qos: dict[str, _Row] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)

    def leave_out(self, what: str) -> None:
        key = what, NOT_READ
        self.left_out[key] = self.left_out.get(key, 0) + 1


def read(files: ConfFiles, counted: Collection[str]) -> SiteAccounts:
    """The accounts that the script beside slurm.conf makes. counted: as for `associations.read`.

    Raises WrongUse with the line of a command that cannot be read, and of a user whose account has not been added.
    """
    made, place = _Database(), files.place(SCRIPT)
    made.accounts[ROOT] = {"account": ROOT, "user": "", "line": "0"}

    def wrong(line: int, words: str) -> WrongUse:
        return WrongUse(f"{place} line {line}: {words}", parameter="slurm_conf")

    for number, text in enumerate(files.content(SCRIPT).splitlines(), 1):
        if match := _COMMAND.match(text):
            problem = _carry_out(made, number, match[1].lower(), (match[2] or "").lower(), match[3])
            if problem:
                raise wrong(number, problem)
    # The first association of a user is that of the default account.
    users = sorted(made.users.values(), key=lambda row: row["account"] != made.defaults.get(row["user"]))
    rows = [(int(row["line"]), row) for row in (*made.accounts.values(), *users)]
    levels = [(int(row["line"]), row) for row in made.qos.values()]
    found = associations.of_rows(rows, levels, wrong, counted, made.defaults)
    found.left_out.update(made.left_out)
    return found


def _carry_out(made: _Database, line: int, command: str, entity: str, text: str) -> str:
    """Change what is made; returns what is wrong with the command, if anything."""
    known = (*_ADD, *_MODIFY, *_REMOVE)
    if command not in known:
        return ""
    kind = _ENTITIES.get(entity)
    if kind is None:
        made.leave_out(f"{command} {entity}"[:40])
        return ""
    chosen, given = _words(text)
    if command in _ADD:
        return _add(made, line, kind, chosen | given)
    if command in _REMOVE:
        names = [name.lower() for name in _names(chosen | given)]
        for row in _chosen(made, kind, names, ()):
            row["removed"] = "yes"
        made.accounts = {name: row for name, row in made.accounts.items() if "removed" not in row}
        made.users = {key: row for key, row in made.users.items() if "removed" not in row}
        made.qos = {name: row for name, row in made.qos.items() if "removed" not in row}
        return ""
    if not given:
        return "has no set"
    for row in _chosen(made, kind, _names(chosen), _listed(chosen.get("account", "") or chosen.get("accounts", ""))):
        _set(made, kind, row, given)
    return ""


def _words(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The options before and after the word `set`, by their names in small letters; those with += or -= have the sign before."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    target = before
    for match in _WORD.finditer(text):
        key, sign, value, alone = match.groups()
        if alone:
            target = after if alone.lower() == "set" else target
        else:
            target[f"{sign}{key.lower()}"] = value.strip("\"'")
    return before, after


def _listed(text: str) -> list[str]:
    return [name for name in (part.strip().lower() for part in text.split(",")) if name]


def _names(words: dict[str, str]) -> list[str]:
    return [name for key in _NAMES for name in _listed(words.get(key, ""))]


def _add(made: _Database, line: int, kind: str, words: dict[str, str]) -> str:
    names = _names(words)
    if kind == "cluster":
        _set(made, kind, made.accounts[ROOT], words)
        return ""
    if not names:
        return "has no Name"
    accounts = _listed(words.get("account", "") or words.get("accounts", "")) or _listed(words.get("defaultaccount", ""))
    for name in names:
        if kind == "qos":
            _set(made, kind, made.qos.setdefault(name, {"name": name, "line": str(line)}), words)
        elif kind == "account":
            parent = words.get("parent", ROOT).lower()
            if parent not in made.accounts:
                return "the parent has not been added before"
            row = {"account": name, "user": "", "parentname": parent, "line": str(line)}
            _set(made, kind, made.accounts.setdefault(name, row), words)
        else:
            if not accounts or not set(accounts) <= made.accounts.keys():
                return "has no account that has been added before"
            made.defaults.setdefault(name, (_listed(words.get("defaultaccount", "")) or accounts)[0])
            for account in accounts:
                row = {"account": account, "user": name, "partition": words.get("partition", ""), "line": str(line)}
                _set(made, kind, made.users.setdefault((name, account), row), words)
    return ""


def _chosen(made: _Database, kind: str, names: Collection[str], accounts: Collection[str]) -> Iterator[_Row]:
    """The rows of these names, of all if there are none; those of users in these accounts, or in all."""
    if kind == "cluster":
        yield made.accounts[ROOT]
    elif kind == "account":
        yield from (row for name, row in made.accounts.items() if name in names or (not names and name != ROOT))
    elif kind == "qos":
        yield from (row for name, row in made.qos.items() if name in names or not names)
    else:
        for (name, account), row in made.users.items():
            if (name in names or not names) and (account in accounts or not accounts):
                yield row


def _set(made: _Database, kind: str, row: _Row, words: dict[str, str]) -> None:
    """Give the row these options."""
    own = (*_NAMES, *_IDLE, "account", "accounts", "defaultaccount", "parent", "partition", "cluster", "clusters")
    for key, value in words.items():
        heading = _HEADINGS.get(key, "")
        if kind == "user" and key == "defaultaccount" and "line" in row:
            made.defaults[row["user"]] = value.lower()
        if key in own:
            continue
        of_kind = OF_QOS if kind == "qos" else OF_ASSOCIATIONS
        if heading in of_kind or heading in SUBMISSION:
            row[heading] = value.lower() if heading in ("share", "qos", "defqos", "preempt") else value
        else:
            made.leave_out(f"{key[:40]} of {kind}s")
