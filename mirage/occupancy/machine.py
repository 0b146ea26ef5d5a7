"""The nodes of a machine as arrays, by their places in the layout that the configuration of a run describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.workloads.constraints import allows
from slurm_mirage.rm.evidence import Layout

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
ALL = 1 << 30
"""Memory of a node on which memory is not managed: more MiB than any node has."""
_RUNS = {"prefix": pl.String, "low": pl.Int64, "high": pl.Int64, "place": pl.Int64}
_DIGITS = "0123456789"


@dataclass(frozen=True)
class Machine:
    """The nodes of a layout; arrays have an element per node."""

    layout: Layout

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each node by its name."""
        return {name: place for place, name in enumerate(self.layout.nodes)}

    @cached_property
    def processors(self) -> Counts:
        return np.array([node.processors for node in self.layout.nodes.values()], np.int64)

    @cached_property
    def usable(self) -> Counts:
        """Processors that jobs can have."""
        return np.array([node.usable(0) for node in self.layout.nodes.values()], np.int64)

    @cached_property
    def memory(self) -> Counts:
        """MiB."""
        return np.array([ALL if node.memory is None else node.memory for node in self.layout.nodes.values()], np.int64)

    @cached_property
    def gpus(self) -> dict[str, Counts]:
        """GPUs by type, "" for those of all types."""
        listed = [node.gpus for node in self.layout.nodes.values()]
        types = sorted({"", *(gpu for gpus in listed for gpu, _ in gpus)})
        return {
            name: np.array([sum(number for gpu, number in gpus if name in ("", gpu)) for gpus in listed], np.int64)
            for name in types
        }

    @cached_property
    def members(self) -> Callable[[str], Flags]:
        """Which nodes a partition has; all if that is not known."""
        nodes, partitions = self.layout.nodes, self.layout.partitions
        return cache(lambda partition: np.array([name in partitions.get(partition, nodes) for name in nodes], np.bool_))

    @cached_property
    def overlap(self) -> Callable[[str, str], bool]:
        """Whether two partitions have nodes in common, or may have."""
        known = self.layout.partitions
        return cache(lambda one, other: one not in known or other not in known or not known[one].isdisjoint(known[other]))

    @cached_property
    def allowing(self) -> Callable[[str], Flags]:
        """Which nodes have features that a constraint allows."""
        nodes = self.layout.nodes.values()
        return cache(lambda constraint: np.array([allows(constraint, node.features) for node in nodes], np.bool_))

    def placed(self, table: pl.DataFrame, hosts: str) -> pl.DataFrame:
        """The rows of a table for each range of places in their host lists, in ascending order, with the columns first, last (the
        place after the range), nodes (of the list that the machine has) and is_known, whether it has all of them. A row without
        such a node has nulls. Leading zeros of numbers count nothing.

        hosts: the column of the lists, of which each different one is parsed once
        """
        texts = table.select(col(hosts).drop_nulls().unique(maintain_order=True)).with_row_index("list")
        parts = texts.lazy().select("list", part=col(hosts).str.extract_all(r"[^\[\],]+(?:\[[\d,-]+\])?")).explode("part")
        part, is_list = col("part"), col("part").str.contains("[", literal=True)
        numbered = pl.when(is_list).then(part.str.extract(r"\[(.*)\]")).otherwise(part.str.extract(r"(\d+)$")).fill_null("")
        pieces = parts.with_columns(
            prefix=pl.when(is_list).then(part.str.extract(r"^(.*)\[")).otherwise(part.str.replace(r"\d+$", "")),
            ranges=numbered.str.split(","),
        ).explode("ranges")
        begin, end = (col("ranges").str.extract(form).cast(pl.Int64, strict=False) for form in (r"^(\d+)", r"(\d+)$"))
        numbers = pieces.select("list", "prefix", begin=begin.fill_null(-1), end=end.fill_null(-1))
        overlaps = numbers.join(self._runs.lazy(), on="prefix").with_columns(
            begin=pl.max_horizontal("begin", "low"), end=pl.min_horizontal("end", "high")
        )
        first = col("place") + col("begin") - col("low")
        ranges = overlaps.filter(col("begin") <= col("end")).select("list", first=first, last=first + 1 + col("end") - col("begin"))
        named = numbers.group_by("list").agg(named=(col("end") - col("begin") + 1).sum())
        nodes = (col("last") - col("first")).sum().over("list")
        known = ranges.join(named, on="list").select("list", "first", "last", nodes=nodes, is_known=nodes == col("named"))
        by_list = known.collect().sort("list", "first")
        numbered_rows = table.join(texts, on=hosts, how="left", maintain_order="left")
        return numbered_rows.join(by_list, on="list", how="left", maintain_order="left_right").drop("list")

    @cached_property
    def _runs(self) -> pl.DataFrame:
        """The nodes in ranges with consecutive numbers and places; the number of a name without one is -1."""
        rows: list[tuple[str, int, int, int]] = []
        for place, name in enumerate(self.layout.nodes):
            prefix = name.rstrip(_DIGITS)
            number = int(name[len(prefix) :] or -1)
            if rows and number > 0 and rows[-1][:1] == (prefix,) and rows[-1][2] == number - 1:
                rows[-1] = (prefix, rows[-1][1], number, rows[-1][3])
            else:
                rows.append((prefix, number, number, place))
        return pl.DataFrame(rows, schema=_RUNS, orient="row")
