"""CSV as the project writes it: fields separated by commas, rows ended by a line feed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence


def text(rows: Iterable[Sequence[object]]) -> str:
    """The rows as CSV; None is an empty field. A field with a comma, a quote or a line break is in quotes, and stays one field.

    Python before 3.13 writes a carriage return without quotes, which readers take for the end of a row.
    """
    stream = io.StringIO()
    plain, all_quoted = (csv.writer(stream, lineterminator="\n", quoting=kind) for kind in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    for row in rows:
        writer = all_quoted if any(isinstance(field, str) and "\r" in field for field in row) else plain
        writer.writerow(row)
    return stream.getvalue()
