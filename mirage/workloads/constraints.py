"""Slurm's constraints: names of features with `&`, `|`, numbers (`a*2`), and brackets."""

from __future__ import annotations

import re

_NAME = re.compile(r"[\w.+=-]+")


def features_in(constraint: str) -> list[str]:
    """The names of features in a constraint, without its operators and numbers."""
    return _NAME.findall(re.sub(r"\*\d+", "", constraint))


def allows(constraint: str, features: frozenset[str]) -> bool:
    """Whether a node with these features can be among those of a job with the constraint.

    `&` and `|` are evaluated from left to right as in Slurm; with numbers (a*2&b*4) a node needs one of the features.
    """
    if not constraint:
        return True
    if "*" in constraint:
        return not features.isdisjoint(features_in(constraint))
    tokens = re.findall(r"[&|,()]|[\w.+=-]+", constraint.replace("[", "(").replace("]", ")"))
    place = 0

    def expression() -> bool:
        nonlocal place
        value = operand()
        while place < len(tokens) and tokens[place] in "&|,":
            operator, place = tokens[place], place + 1
            other = operand()
            value = (value or other) if operator == "|" else (value and other)
        return value

    def operand() -> bool:
        nonlocal place
        if place >= len(tokens):
            return False
        token, place = tokens[place], place + 1
        if token != "(":
            return token in features
        value = expression()
        place += 1
        return value

    return expression()
