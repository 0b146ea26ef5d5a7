"""What an instance with accounting has in its database: accounts, associations and QOS, as sacctmgr(1) shows and makes them.

A workload's user 12 is the user u12 (job_users.py) in an account of its own, u12 under root, which has the user's share. The
instance's user has associations with the default account, and with the accounts of jobs that belong to nobody else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ...base.errors import WrongUse
from ...jobs import arrays
from ...jobs.plan import read_plan
from . import account_file, job_users
from .conf import value_of

DEFAULT_ACCOUNT = "default"
"""Account of jobs that name none."""
FIRST_QOS = "normal"
"""The QOS that Slurm makes itself, which jobs that name none have."""
CHUNK = 250
"""Names in one call of sacctmgr: a call takes half a second, but one of all users of a log would take longer than slurmdbd may."""
LOAD = "load"
"""The word after which sacctmgr reads a file with users and accounts."""
QOS_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
"""A name of a QOS. Slurm keeps names in lower case."""


def account_of(user: int) -> str:
    """The account of a user of a log; empty, which is the default account, for the unknown one (-1)."""
    return f"u{user}" if user >= 0 else ""


def qos_of(entries: Any, where: str) -> dict[str, dict[str, str]]:
    """Words for sacctmgr by name of QOS, from a configuration's list of mappings with `name`. WrongUse begins with `where`."""
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise WrongUse(f"{where}: qos is not a list of mappings")
    qos: dict[str, dict[str, str]] = {}
    for number, entry in enumerate(entries, 1):
        name = str(entry.get("name", ""))
        if not QOS_NAME.match(name) or name in qos:
            raise WrongUse(f"{where}: qos {number}: name {name!r}: lower-case letters, digits, '_', '-', and no other's name")
        words = {str(key): value_of(value) for key, value in entry.items() if key != "name"}
        for key, text in words.items():
            if not re.fullmatch("[A-Za-z]+", key) or not text or re.search(r"\s", text):
                raise WrongUse(f"{where}: qos {name}: {key}={text}: a word that sacctmgr knows, and its value, without blanks")
            account_file.check_value(f"{where}: qos {name}: {key}", text)
        qos[name] = words
    return qos


def shares_of(shares: Any, where: str) -> dict[str, int]:
    """Shares by account from a configuration's mapping of the log's users to whole numbers."""
    if not isinstance(shares, Mapping):
        raise WrongUse(f"{where}: shares is not a mapping of users to shares")
    by_account = {}
    for user, share in shares.items():
        if not str(user).isdecimal() or not str(share).isdecimal() or isinstance(share, bool):
            raise WrongUse(f"{where}: shares: {user}: {share}: the number of a user, and a whole number of shares")
        by_account[account_of(int(user))] = int(share)
    return by_account


@dataclass(frozen=True)
class Present:
    """What the database has of a cluster: shares by account, users with accounts of theirs, the QOS of the cluster's root, and all
    QOS with the words that they were given."""

    shares: Mapping[str, int] = field(default_factory=dict)
    associated: frozenset[tuple[str, str]] = frozenset()
    allowed: frozenset[str] = frozenset()
    qos: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    loaded: str = ""
    """Digest of the file by which the associations of a site were made."""


ASSOCIATION_FORMAT = "account,user,share,qos"


def parse_associations(text: str, qos: Mapping[str, Mapping[str, str]]) -> Present:
    """Answer of `sacctmgr --noheader --parsable2 show associations` in ASSOCIATION_FORMAT; `qos` is what is known of these."""
    shares: dict[str, int] = {}
    associated = set()
    allowed: frozenset[str] = frozenset()
    for line in text.splitlines():
        account, whose, share, names = line.split("|")
        if whose:
            associated.add((whose, account))
        elif account == "root":
            allowed = frozenset(names.split(",")) - {""}
        else:
            shares[account] = int(share) if share.isdecimal() else 0
    return Present(shares, frozenset(associated), allowed, qos)


@dataclass(frozen=True)
class Wanted:
    """What the database is to have for `cluster`: accounts that `user` may submit with, shares of accounts (1 by default), QOS, and
    other users, each with the account that is its default one.

    site: associations of a site, which take the place of those in accounts of their own: mappings with account, parent, user,
        partition (empty for none) and words, options of sacctmgr; accounts after their parents, users last
    """

    cluster: str
    user: str
    accounts: Sequence[str]
    shares: Mapping[str, int] = field(default_factory=dict)
    qos: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    users: Sequence[tuple[str, str]] = ()
    site: Sequence[Mapping[str, Any]] = ()

    def associations(self) -> set[tuple[str, str]]:
        """All users with accounts of theirs."""
        own = dict.fromkeys([DEFAULT_ACCOUNT, *filter(None, self.accounts)])
        of_site = ((one["user"], one["account"]) for one in self.site if one["user"])
        return {*((self.user, account) for account in own), *self.users, *of_site}

    def commands(self, present: Present) -> Iterator[list[str]]:
        """The words after `sacctmgr --immediate` for all that is missing, in order. What is there beyond it stays.

        After LOAD comes the content of a file that sacctmgr is to read.
        """
        yield from self._qos(present)
        of_site = {one["account"] for one in self.site}
        own = list(dict.fromkeys([DEFAULT_ACCOUNT, *filter(None, self.accounts)]))
        accounts = list(dict.fromkeys([*own, *(account for _, account in self.users)]))
        of_cluster = f"cluster={self.cluster}"
        needed = [name for name in accounts if name not in of_site or name == DEFAULT_ACCOUNT]
        for share, names in self._by_share(name for name in needed if name not in present.shares):
            yield ["add", "account", f"name={names}", of_cluster, "parent=root", f"fairshare={share}"]
        changed = [
            name for name in accounts if name not in of_site and present.shares.get(name, self._share(name)) != self._share(name)
        ]
        for share, names in self._by_share(changed):
            yield ["modify", "account", "where", f"name={names}", of_cluster, "set", f"fairshare={share}"]
        user = ["add", "user", f"name={self.user}", of_cluster, "fairshare=1"]
        if (self.user, DEFAULT_ACCOUNT) not in present.associated:
            yield [*user, f"account={DEFAULT_ACCOUNT}", f"defaultaccount={DEFAULT_ACCOUNT}"]
        if self.site and not (present.loaded == self.digest and _pairs(self.site) <= present.associated):
            yield [LOAD, self.site_file()]
        # Slurm 22.05 renumbers all that follows an account for each user that the account gets (as_mysql_assoc.c), and puts new
        # accounts before the old ones: beginning with the last ones halves the time.
        for names in reversed(list(_chunks([name for name in own[1:] if (self.user, name) not in present.associated]))):
            yield [*user, f"account={names}"]
        known = present.associated | _pairs(self.site)
        if others := [pair for pair in self.users if pair not in known]:
            yield [LOAD, self._file(others)]

    @property
    def digest(self) -> str:
        """Digest of the file with the associations of the site; empty for none."""
        return hashlib.sha256(self.site_file().encode()).hexdigest() if self.site else ""

    def site_file(self) -> str:
        """The file by which `sacctmgr load` adds and changes the associations of the site. What it does not name stays."""
        root: Mapping[str, str] = next((one["words"] for one in self.site if one["account"] == "root" and not one["user"]), {})
        lines = [account_file.line("Cluster", self.cluster, {key: root[key] for key in root if key not in ("Fairshare", "QOS")})]
        first: dict[str, str] = {}
        for one in self.site:
            if one["user"]:
                default = first.setdefault(one["user"], one["account"])
                of_partition = {"Partition": one["partition"]} if one["partition"] else {}
                words = {**of_partition, "DefaultAccount": default, **one["words"]}
                lines += [account_file.line("Parent", one["account"]), account_file.line("User", one["user"], words)]
            elif one["account"] != "root":
                parent = account_file.line("Parent", one["parent"] or "root")
                lines += [parent, account_file.line("Account", one["account"], one["words"])]
        return "".join(lines)

    def _file(self, users: Sequence[tuple[str, str]]) -> str:
        """The file by which `sacctmgr load` adds users, thousands at once. What it does not name stays."""
        lines = [account_file.line("Cluster", self.cluster)]
        for name, account in users:
            lines += [
                account_file.line("Parent", account),
                account_file.line("User", name, {"DefaultAccount": account, "Fairshare": "1"}),
            ]
        return "".join(lines)

    def _share(self, account: str) -> int:
        return self.shares.get(account, 1)

    def _by_share(self, accounts: Iterable[str]) -> Iterator[tuple[int, str]]:
        groups: dict[int, list[str]] = {}
        for name in accounts:
            groups.setdefault(self._share(name), []).append(name)
        for share, names in groups.items():
            for chunk in _chunks(names):
                yield share, chunk

    def _qos(self, present: Present) -> Iterator[list[str]]:
        for name, words in self.qos.items():
            before = present.qos.get(name)
            if before is None:
                yield ["add", "qos", f"name={name}", *_assignments(words)]
            elif before != words:
                # -1 takes a word back (sacctmgr(1)).
                gone = dict.fromkeys(before.keys() - words.keys(), "-1")
                yield ["modify", "qos", "where", f"name={name}", "set", *_assignments({**gone, **words})]
        names = [FIRST_QOS, *(name for name in self.qos if name != FIRST_QOS)]
        if self.qos and present.allowed != set(names):
            yield ["modify", "cluster", "where", f"name={self.cluster}", "set", f"qos={','.join(names)}"]


def _pairs(site: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {(one["user"], one["account"]) for one in site if one["user"]}


def _assignments(words: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(words.items())]


def _chunks(names: Sequence[str]) -> Iterator[str]:
    for first in range(0, len(names), CHUNK):
        yield ",".join(names[first : first + CHUNK])


RECORD = (
    "JobID", "JobIDRaw", "JobName", "User", "Account", "Partition", "QOS", "Priority", "Submit", "Eligible", "Start", "End",
    "Elapsed", "Suspended", "State", "ExitCode", "Timelimit", "ReqCPUS", "AllocCPUS", "ReqNodes", "NNodes", "NodeList",
)  # fmt: skip
"""Columns of a run's sacct.txt."""


def record_command(programs: str, since: float) -> list[str]:
    """The words that ask sacct for all jobs that there were from that instant on (virtual seconds since the epoch), in UTC."""
    begin = datetime.fromtimestamp(since, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    words = ["--parsable2", "--allusers", "--allocations", "--duplicates", f"--starttime={begin}", "--endtime=now"]
    return [f"{programs}/sacct", *words, f"--format={','.join(RECORD)}"]


def lines_of_run(text: str, run: str) -> list[str]:
    """The heading of sacct's answer, and the lines of jobs and array tasks that have names of the run: RUN.NUMBER."""
    heading, *lines = text.splitlines()
    name = heading.split("|").index("JobName")
    pattern = re.compile(rf"{re.escape(run)}\.\d+({re.escape(arrays.SUFFIX)})?\Z")
    return [heading, *(line for line in lines if pattern.match(line.split("|")[name]))]


def wanted_of(parameters: Mapping[str, Any]) -> Wanted:
    """The accounts, shares and QOS that the parameters of the module slurm_accounts ask for. Raises WrongUse."""
    plan = Path(parameters["plan"]) if parameters["plan"] else None
    rows = read_plan(plan) if plan else []
    accounts = sorted({row.account for row in rows if not row.owner})
    users = {(row.owner, row.account or DEFAULT_ACCOUNT) for row in rows if row.owner}
    users |= {(job_users.name_of(user), account_of(user)) for user in parameters["users"]}
    source = "CONFIG"  # named in messages
    shares, qos = shares_of(parameters["shares"], source), qos_of(parameters["qos"], source)
    for name in {*filter(None, accounts), *(name for pair in users for name in pair if name)}:
        account_file.check_name("plan.csv: account or user", name)
    return Wanted(parameters["cluster"], parameters["user"], accounts, shares, qos, sorted(users), parameters["site"])
