"""Reads a script of sacctmgr(1) commands beside slurm.conf: the users, accounts and QOS that `sacctmgr -i < sacctmgr.script` makes.

    add qos Name=long Priority=200
    add account lab Parent=root Fairshare=100
    add user Name=ann Account=lab Fairshare=parent
    modify user where name=ann set qos=long,normal

`add` (`create`), `modify` and `remove` (`delete`) of accounts, users, QOS and the cluster are carried out in their order, on an
empty database; other commands, such as `list`, change nothing. A word without `=` is a name, as for sacctmgr. As in slurm.conf,
messages name the line and quote no value.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mirage.site import associations
from mirage.site.associations import OF_ASSOCIATIONS, OF_QOS, ROOT, SUBMISSION, SiteAccounts
from mirage.site.conf_lines import ConfFiles
from slurm_mirage.base.errors import WrongUse

SCRIPT = "sacctmgr.script"
NOT_READ = "the reader of sacctmgr's scripts does not know it"

MOST_ROWS, MOST_CHANGES = 200_000, 2_000_000
"""Associations and QOS that a script may make; rows that its commands may add, change or look at in all."""

_ADD, _MODIFY, _REMOVE = ("add", "create"), ("modify", "update"), ("remove", "delete")
_WITHOUT_EFFECT = (
    "archive", "dump", "exit", "help", "list", "parsable", "problem", "quiet", "quit", "readonly", "reconfigure", "show", "stats",
    "verbose", "version",
)  # fmt: skip
_ENTITIES = {"account": "account", "accounts": "account", "user": "user", "users": "user", "qos": "qos", "cluster": "cluster"}
_TOKEN = re.compile(r"""(?:[^\s"']|"[^"]*"?|'[^']*'?)+""")
_KEY = re.compile(r"([A-Za-z]+)([-+]?)", re.ASCII)
_COMMAND = re.compile(r"\s*([A-Za-z]+)(?:\s+([A-Za-z]+))?(.*)", re.ASCII)
_HEADINGS = {
    **{option.lower(): heading for heading, option in (*OF_ASSOCIATIONS.items(), *OF_QOS.items())},
    "qoslevel": "qos", "fairshare": "share", "maxsubmitjobs": "maxsubmit", "maxsubmitjobsperuser": "maxsubmitpu",
    "maxsubmitjobsperaccount": "maxsubmitpa", "grpsubmitjobs": "grpsubmit", "maxtres": "maxtres", "maxwall": "maxwall",
}  # fmt: skip
"""Headings of sacctmgr's tables by its options in small letters."""
_ACCOUNTS = ("account", "accounts", "acct")
_NAMES = {"user": ("name", "names", "user", "users"), "account": ("name", "names", *_ACCOUNTS)}
"""Options that name accounts or users; QOS and clusters have only the first two."""
_OTHER_NAMES = ("name", "names")
_IDLE = ("description", "organization", "adminlevel", "immediate")
"""Options without effect on jobs."""

_Row = dict[str, str]


@dataclass
class _Database:
    """What the commands so far have made. Rows have the headings of sacctmgr's tables, and `line`."""

    accounts: dict[str, _Row] = field(default_factory=dict)
    users: dict[str, dict[tuple[str, str], _Row]] = field(default_factory=dict)
    """By name; each user's by account and partition."""
    qos: dict[str, _Row] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)
    rows: int = 0
    changes: int = 0

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
    users = [row for own in made.users.values() for row in own.values()]
    users.sort(key=lambda row: row["account"] != made.defaults.get(row["user"]))
    rows = [(int(row["line"]), row) for row in (*made.accounts.values(), *users)]
    levels = [(int(row["line"]), row) for row in made.qos.values()]
    found = associations.of_rows(rows, levels, wrong, counted, made.defaults)
    found.left_out.update(made.left_out)
    return found


def _carry_out(made: _Database, line: int, command: str, entity: str, text: str) -> str:
    """Change what is made; returns what is wrong with the command, if anything."""
    if command not in (*_ADD, *_MODIFY, *_REMOVE):
        if command not in _WITHOUT_EFFECT:
            made.leave_out(f"the command {command}"[:40])
        return ""
    kind = _ENTITIES.get(entity)
    if kind is None:
        made.leave_out(f"{command} {entity}"[:40])
        return ""
    words = _words(text)
    if words is None:
        return "has a = without the name of an option before it"
    chosen, given = words
    if command in _ADD:
        return _add(made, line, kind, chosen | given)
    if unread := chosen.keys() - {*_names_of(kind), *(_ACCOUNTS if kind == "user" else ()), "cluster", "clusters"}:
        made.leave_out(f"{command} {entity} where {min(unread)[:40]}")
        return ""
    names, accounts = _names(kind, chosen), _listed(_first(chosen, _ACCOUNTS)) if kind == "user" else []
    if command in _REMOVE:
        return _remove(made, kind, names, accounts)
    if not given:
        return "has no set"
    for row in _chosen(made, kind, names, accounts):
        _set(made, kind, row, given)
    return _too_much(made)


def _words(text: str) -> tuple[dict[str, str], dict[str, str]] | None:
    """The conditions and the options after the word `set`, by their names in small letters; those with += or -= have the sign
    before. Names are `name`, also those without `name=`. None where a name is missing."""
    conditions: dict[str, str] = {}
    options: dict[str, str] = {}
    target = conditions
    for token in _TOKEN.findall(text):
        key, equals, value = token.partition("=")
        if not equals:
            small = token.lower()
            if small in ("set", "where"):
                target = options if small == "set" else conditions
            else:
                target["name"] = ",".join(filter(None, (target.get("name", ""), token.strip("\"'"))))
            continue
        if not key:
            return None
        match = _KEY.fullmatch(key)
        name = f"{match[2]}{match[1].lower()}" if match else "an option"
        target[name] = value.strip("\"'")
    return conditions, options


def _listed(text: str) -> list[str]:
    return [name for name in (part.strip().lower() for part in text.split(",")) if name]


def _first(words: Mapping[str, str], keys: Iterable[str]) -> str:
    """The value of the first of these options that is given."""
    return next((words[key] for key in keys if words.get(key)), "")


def _names_of(kind: str) -> tuple[str, ...]:
    return _NAMES.get(kind, _OTHER_NAMES)


def _names(kind: str, words: Mapping[str, str]) -> list[str]:
    return [name for key in _names_of(kind) for name in _listed(words.get(key, ""))]


def _too_much(made: _Database) -> str:
    if made.rows > MOST_ROWS:
        return f"makes more than {MOST_ROWS} associations and QOS"
    return f"with the commands before it changes more than {MOST_CHANGES} rows" if made.changes > MOST_CHANGES else ""


def _add(made: _Database, line: int, kind: str, words: dict[str, str]) -> str:
    if kind == "cluster":
        _set(made, kind, made.accounts[ROOT], words)
        return ""
    names = _listed(_first(words, _OTHER_NAMES)) if kind != "user" else _names(kind, words)
    if not names:
        return "has no Name"
    if kind == "user":
        return _add_users(made, line, names, words)
    for name in names:
        own = {"line": str(line)}
        if kind == "qos":
            row = made.qos.setdefault(name, {"name": name, **own})
        else:
            parent = words.get("parent", ROOT).lower()
            if parent not in made.accounts:
                return "the parent has not been added before"
            row = made.accounts.setdefault(name, {"account": name, "user": "", "parentname": parent, **own})
        _set(made, kind, row, words)
    made.rows, made.changes = made.rows + len(names), made.changes + len(names)
    return _too_much(made)


def _add_users(made: _Database, line: int, names: Sequence[str], words: dict[str, str]) -> str:
    """Add users to accounts; the default one is one of them."""
    default = _listed(words.get("defaultaccount", ""))
    accounts = list(dict.fromkeys([*_listed(_first(words, _ACCOUNTS)), *default]))
    if not accounts or not set(accounts) <= made.accounts.keys():
        return "has no account that has been added before"
    partitions = [one for one in words.get("partition", "").split(",") if one] or [""]
    count = len(names) * len(accounts) * len(partitions)
    made.rows, made.changes = made.rows + count, made.changes + count
    if problem := _too_much(made):
        return problem
    for name, account, partition in itertools.product(names, accounts, partitions):
        row = {"account": account, "user": name, "partition": partition, "line": str(line)}
        made.defaults.setdefault(name, (default or accounts)[0])
        _set(made, "user", made.users.setdefault(name, {}).setdefault((account, partition), row), words)
    return ""


def _remove(made: _Database, kind: str, names: Collection[str], accounts: Collection[str]) -> str:
    """Remove rows; with an account those below it and their users."""
    if not names and not accounts:
        return "has no condition"
    if kind == "cluster":
        return ""
    if kind == "qos":
        made.qos = {name: row for name, row in made.qos.items() if name not in names}
    elif kind == "account":
        gone, found = set[str](), set(names) - {ROOT}
        while found and not _too_much(made):
            gone |= found
            found = {name for name, row in made.accounts.items() if row.get("parentname") in gone} - gone
            made.changes += len(made.accounts)
        made.accounts = {name: row for name, row in made.accounts.items() if name not in gone}
        _leave_accounts(made, [*made.users], gone)
    else:
        _leave_accounts(made, names or [*made.users], accounts or made.accounts.keys())
    made.changes += len(made.qos) + len(made.accounts) + (len(names) or len(made.users))
    return _too_much(made)


def _leave_accounts(made: _Database, users: Iterable[str], accounts: Collection[str]) -> None:
    """Remove the associations of users with accounts. One whose default account is gone has the first one that is left."""
    for name in users:
        own = {key: row for key, row in made.users.get(name, {}).items() if key[0] not in accounts}
        if own:
            made.users[name] = own
            if made.defaults[name] not in {account for account, _ in own}:
                made.defaults[name] = next(iter(own))[0]
        else:
            made.users.pop(name, None)
            made.defaults.pop(name, None)


def _chosen(made: _Database, kind: str, names: Sequence[str], accounts: Collection[str]) -> list[_Row]:
    """The rows of these names, of all if there are none; those of users in these accounts, or in all."""
    if kind == "cluster":
        return [made.accounts[ROOT]]
    if kind == "user":
        looked_at = [row for name in names or made.users for row in made.users.get(name, {}).values()]
        found = [row for row in looked_at if row["account"] in accounts or not accounts]
    else:
        rows = made.qos if kind == "qos" else made.accounts
        looked_at = found = [rows[name] for name in names or rows if name in rows and (names or kind == "qos" or name != ROOT)]
    made.changes += max(len(looked_at), 1)
    return found


def _set(made: _Database, kind: str, row: _Row, words: dict[str, str]) -> None:
    """Give the row these options."""
    own = (*_names_of(kind), *_IDLE, *_ACCOUNTS, "defaultaccount", "parent", "partition", "cluster", "clusters")
    for key, value in words.items():
        heading = _HEADINGS.get(key, "")
        if kind == "account" and key == "parent" and row["account"] != ROOT:
            row["parentname"] = value.lower()
        if kind == "user" and key == "defaultaccount" and "line" in row:
            made.defaults[row["user"]] = value.lower()
        if key in own:
            continue
        of_kind = OF_QOS if kind == "qos" else OF_ASSOCIATIONS
        if heading in of_kind or heading in SUBMISSION:
            row[heading] = value.lower() if heading in ("share", "qos", "defqos", "preempt") else value
        else:
            made.leave_out(f"{key[:40]} of {kind}s")
