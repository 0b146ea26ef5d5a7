"""Slurm's words for jobs and the tasks of job arrays, and the ids and names that stand for them (jobs.arrays)."""

from __future__ import annotations

from ...jobs import arrays


def id_of(job_id: str, array: str, task: str) -> int:
    """The id of a job or of the task of an array, from Slurm's words for its own id, its array's id and its number in the array.

    A job that is not a task has no number as its `task`; several waiting tasks, which are cancelled together, have a list.
    """
    return arrays.task_id(int(array), int(task)) if array.isdigit() and task.isdigit() else int(job_id)


def name_of(name: str, task: str) -> str:
    """The name in the plan of a job or of the task of an array, by Slurm's words for its name and its number in the array."""
    return arrays.task_name(name, int(task)) if task.isdigit() else name
