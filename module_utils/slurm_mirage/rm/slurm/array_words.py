"""Slurm's words for jobs and the tasks of job arrays, and the ids and names that stand for them (jobs.arrays)."""

from __future__ import annotations

from ...base.numbers import whole_number
from ...jobs import arrays

_MOST = 2**32 - 1
"""Slurm's numbers of jobs and tasks have 32 bits."""


def id_of(job_id: str, array: str, task: str) -> int:
    """The id of a job or of the task of an array, from Slurm's words for its own id, its array's id and its number in the array.

    A job that is not a task has no number as its `task`; several waiting tasks, which are cancelled together, have a list.
    """
    of_array, of_task = whole_number(array, most=_MOST), whole_number(task, most=_MOST)
    return int(job_id) if of_array is None or of_task is None else arrays.task_id(of_array, of_task)


def name_of(name: str, task: str) -> str:
    """The name in the plan of a job or of the task of an array, by Slurm's words for its name and its number in the array."""
    number = whole_number(task, most=_MOST)
    return name if number is None else arrays.task_name(name, number)
