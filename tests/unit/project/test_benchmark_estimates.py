"""`make bench PART=estimates`: the table of predicted and measured, and the bounds."""

from __future__ import annotations

from benchmarks.estimates import checks, over_predicted, report
from mirage.experiment.host_pace import Played, Predicted

RUN = Predicted(20, 4.0, 10.0, 20.0, 8.0, 1.0, "none", "fifo", "lublin")
FIGURES = {
    "runs": {
        "first": {"least": 10.0, "most": 30.0, "took": 25.0, "load": 0.1, **over_predicted(Played(RUN, 20.0, 20.0, 4.0))},
        "second": {"least": 10.0, "most": 29.0, "took": 35.0, "load": 0.1, **over_predicted(Played(RUN, 5.0, 80.0, 4.0))},
        "at a constant speed": {"least": 10.0, "most": 20.0, "took": 15.0, "load": 0.1},
    }
}


def test_the_table_has_what_the_constants_are_to_be_multiplied_by() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report(FIGURES).splitlines()]
    assert [row[0] for row in rows[2:]] == ["first", "second", "at a constant speed", "geometric mean"]
    assert rows[2][1:4] == ["10 to 30", "25.00", "inside"] and rows[3][3] == "NO"
    assert [row[5:] for row in rows[2:]] == [
        ["2.00", "1.00", "0.50"], ["0.50", "4.00", "0.50"], ["-", "-", "-"], ["1.00", "2.00", "0.50"]
    ]  # fmt: skip


def test_the_bounds() -> None:
    inside, width = checks(FIGURES)
    assert inside.measured == 2 / 3 and not inside.holds
    assert width.measured == 3.0 and width.holds
    assert not checks({"runs": {"wide": {"least": 10.0, "most": 31.0, "took": 15.0}}})[1].holds
