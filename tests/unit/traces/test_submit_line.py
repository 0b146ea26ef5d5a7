"""The options in sacct's SubmitLine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.traces.submit_line import options


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("sbatch -N2-4 -n 8 -c4 job.sh", {"nodes": "2-4", "ntasks": "8", "cpus-per-task": "4"}),
        ("sbatch --nodes=2 --ntasks-per-node 4 job.sh -N 9", {"nodes": "2", "ntasks-per-node": "4"}),
        ("sbatch job.sh --gres=gpu:1", {}),
        ("sbatch --gres gpu:a100:2 --exclusive job.sh", {"gres": "gpu:a100:2", "exclusive": ""}),
        ("sbatch --exclusive=user -Hs x", {"exclusive": "user", "hold": "", "oversubscribe": ""}),
        ("sbatch --const=skl --lic=a:2 x", {"constraint": "skl", "licenses": "a:2"}),
        ("sbatch --nod=2 -N3 x", {"nodes": "3"}),
        ("sbatch --container-image a -N3 x", {}),
        ("sbatch -k -N3 -Ka -n2 x", {"no-kill": "", "nodes": "3", "kill-command": "a", "ntasks": "2"}),
        ("sbatch --wrap=sleep 5 -N2", {"wrap": "sleep"}),
        ("sbatch -N2 --wrap sleep 5 -n2", {"nodes": "2", "wrap": "sleep"}),
        ("sbatch -n1 : -n2 job.sh", {"ntasks": "1", ":": ""}),
        ("srun --tasks-per-node=2 --nice a.out", {"ntasks-per-node": "2", "nice": ""}),
        ("sbatch '--comment=it' -N2 x", {}),
        ('sbatch --constraint="a&b" x', {"constraint": "a&b"}),
        ("sbatch --container-image=a -N2 x -n3", {"nodes": "2"}),
        ("sbatch -N", {"nodes": ""}),
        ("sbatch -- -N2", {}),
        ("", {}),
    ],
)
def test_command_lines(line: str, found: dict[str, str]) -> None:
    assert options(line) == found


VALUES = st.from_regex(r"\A[A-Za-z0-9:._&|+%/-]{1,12}\Z").filter(lambda text: not text.startswith("-") and text != ":")
GIVEN = st.lists(st.tuples(st.sampled_from(["nodes", "gres", "constraint", "licenses", "mem", "qos"]), VALUES), max_size=6)
SHORT = {"nodes": "-N", "constraint": "-C", "licenses": "-L", "qos": "-q"}


@given(GIVEN, st.data(), st.lists(st.text(max_size=8), max_size=4))
def test_any_form_of_an_option_is_read_and_the_arguments_of_the_script_are_not(
    given_options: list[tuple[str, str]], data: st.DataObject, arguments: list[str]
) -> None:
    words = ["sbatch"]
    for name, value in given_options:
        forms = [f"--{name}={value}", f"--{name} {value}"]
        if name in SHORT:
            forms += [f"{SHORT[name]}{value}", f"{SHORT[name]} {value}"]
        words.append(data.draw(st.sampled_from(forms)))
    line = " ".join([*words, "job.sh", *arguments])
    assert options(line) == dict(given_options)


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    assert all(isinstance(value, str) for value in options(text).values())
