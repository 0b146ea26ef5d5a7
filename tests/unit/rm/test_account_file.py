"""The file that `sacctmgr load` reads: values arrive letter by letter in a reading of sacctmgr's parser, or are refused."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from line_values import values
from sacctmgr_reader import BUFFER, read

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm import account_file


@given(values, st.dictionaries(st.sampled_from(["Fairshare", "MaxWallDurationPerJob", "QOS"]), values.map(str.lower), max_size=3))
@example("a#b", {"QOS": "a:b#c\\"})
def test_a_line_is_read_letter_by_letter_or_refused(name: str, options: dict[str, str]) -> None:
    try:
        line = account_file.line("Account", name, options)
    except WrongUse as error:
        assert str(error).startswith("account")
        return
    assert read(f"Cluster - 'a'\n{line}Parent - 'root'\n") == [
        ("Cluster", "a", {}),
        ("Account", name, options),
        ("Parent", "root", {}),
    ]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a'b", {}, 'account: "a\'b" is no name that sacctmgr keeps'),
        ("a b", {}, "account: 'a b' is no name that sacctmgr keeps"),
        ("", {}, "account: '' is no name that sacctmgr keeps"),
        ("ABC", {}, "account: 'ABC' is no name that sacctmgr keeps"),
        ("a\nb", {}, "account: has the control character U+000A"),
        ("a", {"QOS": "1':AdminLevel='Admin"}, "account a: QOS: has quotes, which sacctmgr does not keep"),
        ("a", {"QOS": "x\u2028y"}, "account a: QOS: has the line separator U+2028"),
        ("a", {"QOS='1':AdminLevel": "x"}, "account a: \"QOS='1':AdminLevel\" is not an option of sacctmgr"),
        ("a", {"QOS": "x" * BUFFER}, "account a: its options are longer than 4094 bytes, the most that sacctmgr reads of a line"),
    ],
)
def test_what_sacctmgr_would_read_otherwise_is_refused(name: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(WrongUse) as refused:
        account_file.line("Account", name, options)
    assert str(refused.value).startswith(words)


def test_the_longest_line_is_read_as_one() -> None:
    length = account_file.LONGEST - len("Account - 'a':QOS=''")
    assert read(account_file.line("Account", "a", {"QOS": "x" * length})) == [("Account", "a", {"QOS": "x" * length})]
    with pytest.raises(WrongUse, match="longer than 4094 bytes"):
        account_file.line("Account", "a", {"QOS": "x" * (length + 1)})
