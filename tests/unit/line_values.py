"""Values for tests of the files that the project writes: words that would be more than one value to a careless writer."""

from __future__ import annotations

from hypothesis import strategies as st

PLANTED = (
    "a\nSlurmUser=root", "a # b", "#", "a#b", "a\\", "a\\ ", "\\", 'a "b"', '"a"', '"', 'a"b', "'", "a'b", "a:b='c'", "a=b", "=",
    "a b", " a", "a ", "", "a\tb", "a\r", "a\rb", "a\0b", "a\x1b[2Jb", "a\x0bb", "a\x85b", "a\u2028SlurmUser=root", "a\u2029b",
    "a\u3000b", "a\u00a0b", "\u00e4", "a,b", "a;b", "$(id)", "`id`", "%i", "{{ 1 + 1 }}", "<b>", "|", "&", "\ud800", "a\\\nb",
)  # fmt: skip
"""One of each kind that some format has to do with."""

values = (
    st.sampled_from(PLANTED)
    | st.text(alphabet=st.sampled_from("ab #\\\"'=,:;&%$\t\n\r\0\x0b\x1b\x85\u2028\u3000\u00e4"), max_size=9)
    | st.text(max_size=20)
)
"""Values of all kinds."""
