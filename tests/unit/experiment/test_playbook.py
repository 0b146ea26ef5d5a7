"""What a user sees of a playbook: real ones, run through ansible-runner on this machine, and how each ends."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from farm_states import farm_state
from playbook_projects import project_with, run
from visible import visible

from mirage.experiment import playbook
from mirage.experiment.endings import Ending, Failed
from mirage.experiment.extra_variables import untrusted
from mirage.terminal import status
from mirage.terminal.progress import local_progress
from mirage.terminal.screen import Screen, progress_line, start_line, time_left
from mirage.text.words import about
from slurm_mirage.base import processes
from slurm_mirage.base.errors import WrongUse

ROOT = Path(__file__).parents[3]

PLAYBOOKS = {
    "fine": """
        - name: Play
          hosts: all
          gather_facts: false
          tasks:
            - name: Ping
              ansible.builtin.ping:
            - name: Count
              counter_info:
                file: "{{ folder }}/count"
              register: counted
              until: counted.progress.done >= 3
              retries: 5
              delay: 0
            - name: Change something
              ansible.builtin.command: "true"
            - name: Rescued
              block:
                - name: Fail
                  ansible.builtin.fail:
                    msg: this was rescued
              rescue:
                - name: Say
                  ansible.builtin.debug:
                    msg: [first word, second word]
    """,
    "refused": """
        - name: Play
          hosts: all
          gather_facts: false
          tasks:
            - name: Check
              ansible.builtin.assert:
                that: nodes >= 1
                fail_msg: "wrong use: NODES: {{ nodes }} may be 1 or more"
    """,
    "some": """
        - name: Play
          hosts: all
          gather_facts: false
          any_errors_fatal: true
          tasks:
            - name: Check
              ansible.builtin.assert:
                that: inventory_hostname not in wrong
                fail_msg: "{{ word }}NODES: there is no room"
    """,
    "plays": """
        - name: First
          hosts: all
          gather_facts: false
          tasks:
            - name: Change something
              ansible.builtin.command: "true"
            - name: Ping
              ansible.builtin.ping:
            - name: Leave out
              ansible.builtin.ping:
              when: false
        - name: Second
          hosts: all
          gather_facts: false
          tasks:
            - name: Ping alone
              ansible.builtin.ping:
        - name: Third
          hosts: all
          gather_facts: false
          tasks:
            - name: Ping once
              ansible.builtin.ping:
            - name: Ping twice
              ansible.builtin.ping:
    """,
    "broken": """
        - name: Play
          hosts: all
          gather_facts: false
          tasks:
            - name: Break it
              ansible.builtin.command: sh -c 'echo before >&2; echo the reason >&2; exit 3'
    """,
    "items": """
        - name: Play
          hosts: all
          gather_facts: false
          tasks:
            - name: Try all
              ansible.builtin.assert:
                that: item < 2
                fail_msg: "{{ item }} is too much"
              loop: [1, 2]
    """,
    "strange": r"""
        - name: "Play \e[2J"
          hosts: all
          gather_facts: false
          tasks:
            - name: "Ask \e]0;title\a"
              noting_info:
            - name: Say
              ansible.builtin.debug:
                msg: ["\e[31mred\r", "::error::planted", "\u202egnp ##[error]x"]
            - name: "Fail\n::error::planted"
              ansible.builtin.fail:
                msg: "no \e[2Jroom\n::error::planted"
    """,
    "mistaken": """
        - name: Play
          hosts: all
          tasks:
            - name: Call
              there_is_no_such_module:
    """,
    "start": """
        - name: Play
          hosts: all
          gather_facts: false
          tasks:
            - name: Run the daemons
              slurm_farm:
                path: "{{ folder }}/seen-starting nodes"
            - name: Ping
              ansible.builtin.ping:
            - name: Wait for the nodes
              slurm_farm_info:
                path: "{{ folder }}/seen-registered"
    """,
    "slow": """
        - name: Play
          hosts: all
          gather_facts: false
          tasks:
            - name: Wait
              ansible.builtin.wait_for:
                path: "{{ folder }}/never"
                timeout: 60
    """,
}
COUNTER = """
#!/usr/bin/python
import pathlib
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"file": {"type": "path"}})
path = pathlib.Path(module.params["file"])
count = int(path.read_text()) + 1 if path.exists() else 1
path.write_text(str(count))
progress = {"jobs": 3, "submitted": count, "running": 1, "pending": 0, "done": count, "lag": 0.02}
progress |= {"time_left_least": 70, "time_left_most": 95}
module.exit_json(changed=False, progress=progress)
"""

# Has notes, as modules whose result a user should know.
NOTING = """
#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
AnsibleModule({}).exit_json(changed=False, notes=["a\\x1b[1mb", "c\\n::error::planted"])
"""

# Stands where the module would that has to wait: here for the line on the screen that tells what it waits for.
WAITING = """
#!/usr/bin/python
import pathlib, time
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"path": {"type": "path"}})
while not pathlib.Path(module.params["path"]).exists():
    time.sleep(0.05)
module.exit_json(changed=False)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with these playbooks, and the real configuration and inventories."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library/counter_info.py").write_text(COUNTER.lstrip())
    (tmp_path / "library/noting_info.py").write_text(NOTING.lstrip())
    for name in ("slurm_farm", "slurm_farm_info"):
        (tmp_path / f"library/{name}.py").write_text(WAITING.lstrip())
    return project_with(tmp_path, monkeypatch, PLAYBOOKS)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What it has shown, one after the other."""
        return [line.rstrip("\n") for line in self.getvalue().split("\r\x1b[K") if line]


def test_a_playbook_that_works(project: Path) -> None:
    terminal = Terminal()
    watcher = run(project, "fine", terminal)
    assert watcher.changed == 1
    assert watcher.information["counter_info"]["progress"]["done"] == 3
    assert terminal.lines() == [
        "  Ping",
        "  Count",
        "replay: 1/3 submitted, about 70 s to 2 min left, 1 running, 0 pending, 1 done, lag 0.02 s"[:79],
        "replay: 2/3 submitted, about 70 s to 2 min left, 1 running, 0 pending, 2 done, lag 0.02 s"[:79],
        "replay: 3/3 submitted, about 70 s to 2 min left, 1 running, 0 pending, 3 done, lag 0.02 s"[:79],
        "  Change something",
        "  Fail",
        "  Say",
        "first word\nsecond word",
    ]
    assert "changed: [localhost]" in (project / "log").read_text()


def test_one_of_several_hosts_is_the_whole_cluster(project: Path) -> None:
    """Groups of the inventory stay; tags leave tasks out."""
    local = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    (project / "hosts").write_text(f"[run_hosts]\nh1 {local}\nh2 {local} mirage_nodes=7\n")
    (project / "playbooks/groups.yml").write_text(
        textwrap.dedent(
            """
            - hosts: mirage
              gather_facts: false
              tasks:
                - name: Groups
                  ansible.builtin.copy:
                    content: "{{ groups['head'] }} {{ groups['compute'] }} {{ groups['run_hosts'] }} {{ mirage_nodes }}"
                    dest: "{{ folder }}/{{ inventory_hostname }}"
                    mode: "0644"
            """
        )
    )
    screen = Screen(io.StringIO())
    playbook.run_playbook("groups", {"folder": str(project)}, project / "hosts", screen, project / "log", host="h2")
    assert (project / "h2").read_text() == "['h2'] ['h2'] ['h1', 'h2'] 7"
    assert not (project / "h1").exists()


def without_times(output: str) -> list[str]:
    """Lines of a pipe; how long a play has taken is left out."""
    return [re.sub(r"changed, \d+ s", "changed", line) for line in output.splitlines()]


def test_a_pipe_gets_a_line_for_each_play(project: Path) -> None:
    """Not for one of a single task; the log has all of them."""
    run(project, "plays", stream := io.StringIO())
    assert without_times(stream.getvalue()) == ["  First: 2 tasks, 1 changed", "  Third: 2 tasks, 0 changed"]
    assert "TASK [Ping alone]" in (project / "log").read_text()


def test_a_play_that_fails_has_no_line_but_its_failure(project: Path) -> None:
    with pytest.raises(Failed, match=r"^Break it: the reason"):
        run(project, "broken", stream := io.StringIO())
    assert stream.getvalue() == ""


def test_what_a_long_play_does_is_told_in_counts(project: Path) -> None:
    stream = io.StringIO()
    screen = Screen(stream, between_lines=0)
    playbook.run_playbook("fine", {"folder": str(project)}, project / "inventories/local", screen, project / "log")
    assert list(dict.fromkeys(without_times(stream.getvalue()))) == [
        "  Play: 0 tasks, 0 changed so far",
        "  Play: 1 task, 0 changed so far",
        "replay: 1/3 submitted, about 70 s to 2 min left, 1 running, 0 pending, 1 done, lag 0.02 s",
        "replay: 2/3 submitted, about 70 s to 2 min left, 1 running, 0 pending, 2 done, lag 0.02 s",
        "replay: 3/3 submitted, about 70 s to 2 min left, 1 running, 0 pending, 3 done, lag 0.02 s",
        "  Play: 2 tasks, 0 changed so far",
        "  Play: 3 tasks, 1 changed so far",
        "first word",
        "second word",
        "  Play: 4 tasks, 1 changed",
    ]


def test_what_tasks_say_is_printed_in_printable_lines(project: Path) -> None:
    stream = io.StringIO()
    with pytest.raises(Failed) as failure:
        playbook.run_playbook("strange", {}, project / "inventories/local", Screen(stream, between_lines=0), project / "log")
    Screen(stream).say(Ending("failed", str(failure.value)).line)
    said = without_times(stream.getvalue())
    assert [line for line in said if not line.startswith("  Play")] == [
        "note: a\\x1b[1mb",
        "note: c\\n::error::planted",
        "\\x1b[31mred\\r",
        "\\::error::planted",
        "\\u202egnp #\\#[error]x",
        f"failed: Fail ::error::planted: no \\x1b[2Jroom ::error::planted (all of it: {project / 'log'})",
    ]
    log = (project / "log").read_text()
    assert "TASK [Ask \\x1b]0;title\\x07]" in log and "title" in log
    for line in (*said, *log.splitlines()):
        assert line.isprintable() and not line.startswith("::") and "##[" not in line


def test_a_role_that_refuses_is_a_wrong_use(project: Path) -> None:
    with pytest.raises(WrongUse, match=r"^NODES: 0 may be 1 or more$"):
        run(project, "refused", nodes=0)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (["c2"], "NODES: there is no room (on c2)"),
        (["c3", "c1"], "NODES: there is no room (on c1, c3)"),
        (["c1", "c2", "c3"], "NODES: there is no room"),
    ],
)
@pytest.mark.parametrize("word", ["", "wrong use: "])
def test_of_several_hosts_those_that_fail_are_named(project: Path, word: str, wrong: list[str], line: str) -> None:
    inventory = project / "three"
    inventory.write_text("[all]\nc1\nc2\nc3\n[all:vars]\nansible_connection=local\n")
    with pytest.raises(WrongUse if word else Failed) as failure:
        playbook.run_playbook("some", {"wrong": wrong, "word": word}, inventory, Screen(io.StringIO()), project / "log")
    expected = line if word else f"Check: {line}"
    assert str(failure.value).startswith(expected) and ("(on" in str(failure.value)) == ("(on" in line)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken", "Break it: the reason"),
        ("items", "Try all: 2 is too much"),
        ("mistaken", "there_is_no_such_module"),
        ("no_such_playbook", "no_such_playbook"),
    ],
)
def test_a_failure_tells_the_tasks_own_message(project: Path, name: str, words: str) -> None:
    with pytest.raises(Failed) as failure:
        run(project, name)
    assert words in str(failure.value)
    assert str(project / "log") in str(failure.value)
    assert "Traceback" not in str(failure.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_playbook_ends_cleanly(project: Path, number: signal.Signals) -> None:
    code = (
        "import sys; from pathlib import Path; from mirage.experiment import playbook;"
        "from mirage.experiment.endings import Interrupted;"
        "from mirage.terminal.screen import Screen; root = Path(sys.argv[1]); playbook.ROOT = root\n"
        "try: playbook.run_playbook('slow', {'folder': sys.argv[1]}, root / 'inventories/local', Screen(None, 0), root / 'log')\n"
        "except Interrupted: print('interrupted'); sys.exit(7)"
    )
    words = [sys.executable, "-c", code, str(project)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "  Play: 0 tasks, 0 changed, 1 s so far\n"
        process.send_signal(number)
        assert process.stdout.read() == "interrupted\n"
        assert process.wait() == 7
    inventory = str(project / "inventories/local")
    assert not [pid for pid in processes.parents() if inventory in processes.command_line(pid)]


def test_what_a_killed_program_left_of_ansible_is_ended(tmp_path: Path) -> None:
    """Processes with the words of an ansible-playbook, on this run, on runs of this campaign, and on those of another."""
    started = []
    for name in ("mine/fifo-1", "mine/calibration", "mine-too/fifo-1", "mine"):
        variables = tmp_path / name.replace("/", "-") / "env/extravars"
        variables.parent.mkdir(parents=True)
        variables.write_text(json.dumps(untrusted({"experiment_results_dir": f"{tmp_path}/results/{name}"})))
        words = [sys.executable, "-c", "import time; time.sleep(600)", "-e", f"@{variables}"]
        started.append(visible(subprocess.Popen(words)))
    # Its variables are gone: nobody knows what it works on.
    started.append(visible(subprocess.Popen([*words[:-1], f"@{tmp_path}/env/extravars"])))
    try:
        playbook.end_leftovers(tmp_path / "results/mine")
        on_mine = [started[0], started[1], started[3]]
        assert [process.wait(timeout=120) for process in on_mine] == [-signal.SIGKILL] * 3
        assert [process.poll() for process in (started[2], started[4])] == [None] * 2
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_locale_that_is_not_there_does_not_matter(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    run(project, "fine")


def test_roles_do_not_see_this_make_or_the_sites_slurm(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", "n")
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    run(project, "fine")
    assert {"MAKEFLAGS", "SLURM_CLUSTERS"}.isdisjoint(os.environ)


class Seen(io.StringIO):
    """Makes a file seen-WORD in `folder` when a line comes that begins with that word and a colon."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def write(self, text: str) -> int:
        if ":" in text and not text.startswith(" "):
            (self.folder / f"seen-{text.partition(':')[0]}").touch()
        return super().write(text)


def test_a_start_is_shown_while_its_modules_wait(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "mine/run").mkdir(parents=True)
    state = farm_state() | starting(ready=1840, wanted=3600, rate=95.0)
    (project / "mine/run/farm.json").write_text(json.dumps(state))
    (project / "slurm/bin").mkdir(parents=True)
    answer = "idle|9|0/36/0/36\nunknown*|5|0/20/0/20\nmixed|1|1/3/0/4"
    (project / "slurm/bin/sinfo").write_text(f"#!/bin/sh\n[ \"$SLURM_CONF\" = {project}/mine/etc/slurm.conf ] && echo '{answer}'\n")
    (project / "slurm/bin/sinfo").chmod(0o755)
    (project / "mine/etc").mkdir(exist_ok=True)
    farm = {"daemons": [{"kind": "slurmctld", "command": [f"{project}/slurm/sbin/slurmctld"]}]}
    (project / "mine/etc/farm.json").write_text(json.dumps(farm))
    monkeypatch.setattr(playbook, "INSTANCES", project)
    stream = Seen(project)
    variables = {"folder": str(project), "mirage_cluster": "mine"}
    playbook.run_playbook("start", variables, project / "inventories/local", Screen(stream, 0), project / "log")
    lines = list(dict.fromkeys(without_times(stream.getvalue())))
    assert lines == [
        "  Play: 0 tasks, 0 changed so far",
        "starting nodes: 1840 of 3600, 95/s, 19 s left",
        "  Play: 1 task, 0 changed so far",
        "  Play: 2 tasks, 0 changed so far",
        "registered: 10 of 15",
        "  Play: 3 tasks, 0 changed",
    ]


def test_a_replay_is_shown_while_ansible_looks_seldom(tmp_path: Path, replaying: Callable[[Path, str], None]) -> None:
    results = tmp_path / "results"
    results.mkdir()
    replaying(tmp_path, "one")
    (tmp_path / "runs/one/progress.json").write_text(json.dumps({"phase": "submitting", "jobs": 8, "submitted": 3}))
    stream = Seen(tmp_path)
    with local_progress(tmp_path, Screen(stream, 0), results) as progress:
        progress.begin("slurm_replay_info")
        give_up = time.monotonic() + 60
        while not (tmp_path / "seen-replay").exists():
            assert time.monotonic() < give_up
            time.sleep(0.05)
    assert stream.getvalue().splitlines()[0] == "replay: 3/8 submitted, 0 running, 0 pending, 0 done"
    assert 'slurm_mirage_jobs_submitted_total{cluster="",run=""} 3\n' in (results / "metrics.prom").read_text()


def test_metrics_of_a_run_on_other_hosts_follow_what_ansible_is_told(project: Path) -> None:
    watcher = playbook.Watcher(Screen(io.StringIO()), results=project)
    for submitted in (3, 4):
        progress = {"run": "one", "jobs": 8, "submitted": submitted}
        watcher.handle({"event": "runner_retry", "event_data": {"res": {"progress": progress}}})
        assert f'submitted_total{{cluster="",run="one"}} {submitted}\n' in (project / "metrics.prom").read_text()
    # What the run has left when it is over.
    (project / "progress.json").write_text(json.dumps(progress | {"phase": "finished", "submitted": 8}))
    variables = {"folder": str(project), "experiment_results_dir": str(project)}
    playbook.run_playbook("fine", variables, project / "inventories/local", Screen(io.StringIO()), project / "log")
    assert 'submitted_total{cluster="",run="one"} 8\n' in (project / "metrics.prom").read_text()


def starting(ready: int, wanted: int, rate: float | None, **more: object) -> dict[str, object]:
    slurmd = {"wanted": wanted, "up": ready + 32, "ready": ready}
    farm = {"phase": "starting", "daemons": {"slurmd": slurmd}, "leaving": 0, "rate": rate, "waiting_for_memory": None}
    return farm | {"restarts": 0, "failing": {}, "refused": {}} | more


@pytest.mark.parametrize(
    ("farm", "line"),
    [
        (starting(0, 3600, None), "starting nodes: 0 of 3600"),
        (starting(1840, 3600, 95.0), "starting nodes: 1840 of 3600, 95/s, 19 s left"),
        (starting(1840, 16384, 2.52), "starting nodes: 1840 of 16384, 2.5/s, 1 h 36 min left"),
        (starting(5120, 16384, 0.0, waiting_for_memory=12), "starting nodes: 5120 of 16384, waiting for memory for 12 s"),
        (starting(5120, 16384, 40.0, waiting_for_memory=1), "starting nodes: 5120 of 16384, 40/s, 5 min left"),
        (starting(3000, 3600, None, leaving=340), "ending daemons: 340 left"),
        (starting(3600, 3600, None, phase="running"), None),
    ],
)
def test_how_far_a_start_is(farm: dict[str, object], line: str | None) -> None:
    assert start_line(farm) == line


def test_status_of_a_cluster_that_starts() -> None:
    farm = starting(5120, 16384, None, waiting_for_memory=12)
    screen = status.lines({"farm": farm, "nodes": {}, "jobs": {}, "clock": None, "memory": 1024}, None)
    assert screen[:3] == [
        "daemons:  slurmd 5152/16384 (starting, 0 restarts)",
        "start:    5120 of 16384, waiting for memory for 12 s",
        "nodes:    slurmctld does not answer",
    ]


def test_a_live_line_is_replaced_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    terminal = Terminal()
    screen = Screen(terminal)
    screen.live("a long line that is cut")
    screen.say("stays")
    screen.clear()
    assert terminal.getvalue() == "\r\x1b[Ka long li\r\x1b[Kstays\n"


def test_without_a_terminal_live_lines_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after 30 s without any, then after twice that time, up to five minutes."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stream = io.StringIO()
    screen = Screen(stream)
    told = []
    for second in range(3601):
        now = 1000.0 + second
        screen.live(f"second {second}")
        told += [second] if stream.getvalue().endswith(f"second {second}\n") else []
    assert told[:6] == [30, 90, 210, 450, 750, 1050]
    assert len(told) == len(stream.getvalue().splitlines()) == 14
    screen.say("another phase")
    now += 29
    screen.live("too early")
    now += 1
    screen.live("a task's name", "a count")
    screen.live("at once")
    assert stream.getvalue().splitlines()[14:] == ["another phase", "a count"]


def test_a_line_for_the_log_is_not_for_a_terminal() -> None:
    terminal, stream = Terminal(), io.StringIO()
    for one in (terminal, stream):
        Screen(one).say_in_log("Play: 3 tasks")
    assert (terminal.getvalue(), stream.getvalue()) == ("", "Play: 3 tasks\n")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (59, "59 s"), (89, "89 s"), (360, "6 min"), (7800, "2 h 10 min"), (3600 * 3, "3 h"),
     (86400 * 3 + 3600 * 4, "3 d 4 h"), (86400 * 2, "2 d")],
)  # fmt: skip
def test_durations(seconds: float, words: str) -> None:
    assert about(seconds) == words


@pytest.mark.parametrize(
    ("least", "most", "cause", "words"),
    [
        (4200, 5000, "", "about 70 to 83 min left"),
        (4200, 6000, "the queue grows", "about 70 min to 1 h 40 min left (longer than before: the queue grows)"),
        (4.0, 9.2, "", "about 4 to 9 s left"),
        (80, 400, "", "about 80 s to 7 min left"),
        (100, 110, "", "about 2 min left"),
        (3600 * 2, 3600 * 2.5, "", "about 2 h to 2 h 30 min left"),
        (None, None, "", None),
        (0.0, 0.0, "", None),
    ],
)
def test_the_time_left_is_a_range(least: float | None, most: float | None, cause: str, words: str | None) -> None:
    assert time_left({"time_left_least": least, "time_left_most": most, "time_left_cause": cause}) == words


def test_progress_tells_trouble_only_when_there_is_some() -> None:
    progress = {"jobs": 200, "submitted": 132, "running": 40, "pending": 3, "done": 89, "lag": None}
    assert progress_line(progress) == "replay: 132/200 submitted, 40 running, 3 pending, 89 done"
    trouble = progress | {"retries": 2, "resubmitted": 1, "nodes_not_responding": 4}
    assert progress_line(trouble).endswith("89 done, 2 retries, 1 submitted again, 4 nodes silent")


def test_status_of_a_stopped_and_of_a_running_cluster() -> None:
    assert status.lines({"farm": {"phase": "stopped"}, "nodes": {}, "jobs": {}, "memory": 1}, None) == ["daemons:  none running"]
    farm = {
        "phase": "running",
        "daemons": {"slurmctld": {"wanted": 1, "up": 1, "ready": 1}, "slurmd": {"wanted": 8, "up": 7, "ready": 7}},
        "restarts": 1,
        "failing": {"n3": "exit 1: fatal: no"},
        "refused": {"memory merging (KSM)": "not permitted"},
    }
    info = {"farm": farm, "nodes": {"idle": 7, "down": 1}, "jobs": {"running": 2}, "clock": None, "memory": 2048}
    info |= {"processors": {"busy": 6, "all": 32}, "scheduler": {"bf_last_cycle_us": 7289, "bf_max_cycle_us": 1_500_000}}
    progress = {"run": "one", "phase": "draining", "jobs": 4, "submitted": 4, "done": 2, "ended": {"completed": 2}, "lag": 0.01}
    progress |= {"retries": 1, "message": "stalled: no job has started or ended for 70 s", "real": 0.0}
    assert status.lines(info, progress) == [
        "daemons:  slurmctld 1/1, slurmd 7/8 (running, 1 restarts)",
        "          n3 keeps ending: exit 1: fatal: no",
        "          refused by this host: memory merging (KSM) (not permitted)",
        "nodes:    1 down, 7 idle",
        "cpus:     6 of 32 busy (19 %)",
        "jobs:     2 running",
        "run:      one: draining",
        "          stalled: no job has started or ended for 70 s",
        "replay:   4 of 4 submitted, 2 ended",
        "ended:    2 completed",
        "lag:      0.010 s, 1 retries",
        "clock:    real time (SPEED=1)",
        "backfill: last cycle 7.3 ms, longest 1.5 s",
        "memory:   2.0 GiB of the host available",
    ]
    drained = status.lines({**info, "nodes": {"idle": 30, "drained": 28, "draining": 2}}, progress)
    assert [line.strip() for line in drained if "drained and" in line] == [
        "30 nodes are drained and take no jobs: `make cluster` returns them to service, or in `make shell` "
        "`scontrol update NodeName=NAMES State=RESUME`; `sinfo -R` has the names"
    ]
    assert status.lines({**info, "progress": progress}, None)[6] == "run:      one: draining", "of a run on another host"
    fast = status.lines({**info, "clock": {"speed": 20.0, "virtual": 1_800_000_000.5, "real": 1_790_000_000.9}}, None)
    assert fast[6] == "clock:    2027-01-15 08:00:00 in the cluster, 2026-09-21 14:13:20 outside (UTC), SPEED=20"


@pytest.mark.parametrize(("word", "code"), [("ok", 0), ("invalid", 1), ("failed", 1), ("wrong use", 2)])
def test_endings_are_stored_and_read_again(tmp_path: Path, word: str, code: int) -> None:
    ending = Ending(word, "first line\nsecond: line")
    ending.store(tmp_path)
    assert (ending.code, ending.line) == (code, f"{word}: first line second: line")
    loaded = Ending.load(tmp_path)
    assert loaded is not None
    assert (loaded.line, loaded.code, loaded.is_final) == (ending.line, code, word in ("ok", "invalid"))


def test_a_run_that_was_killed_has_no_ending(tmp_path: Path) -> None:
    assert Ending.load(tmp_path) is None
