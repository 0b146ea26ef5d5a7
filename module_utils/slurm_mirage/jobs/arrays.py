"""Ids and names of the tasks of job arrays.

A resource manager gives a task an id of its own when it starts it, and may forget that id when its controller is killed. So a task
is identified by the id of its array and its number in the array, from the submission on.
"""

from __future__ import annotations

from ..base.numbers import whole_number

SUFFIX = ".array"
"""End of an array's name in the resource manager: RUN.ID.array, where ID is the trace's number of task 0."""
MOST_TASKS = 1000
"""Numbers of tasks are below this one: Slurm's MaxArraySize, 1001 by default, has to be above the highest number."""

STEP = 10**10
"""Smaller ids are those of jobs that are not tasks of an array. Slurm's highest id is 67,043,328."""


def task_id(array: int, task: int) -> int:
    """The id of a task: 123 and 4 are 1230000000004."""
    return array * STEP + task


def array_and_task(job_id: int) -> tuple[int, int] | None:
    """The id of the array and the number of the task with this id; None for a job that is not a task."""
    return divmod(job_id, STEP) if job_id >= STEP else None


def number(job_id: int) -> int:
    """The number that the manager gave at the submission: the id of the array of a task, or that of the job."""
    return job_id // STEP if job_id >= STEP else job_id


def word(job_id: int) -> str:
    """The id as Slurm writes it: 12, or 12_3 for the task of an array."""
    task = array_and_task(job_id)
    return str(job_id) if task is None else f"{task[0]}_{task[1]}"


def array_name(name: str) -> str:
    """The name of the array whose task 0 is the job with this name in the plan."""
    return f"{name}{SUFFIX}"


def task_name(name: str, task: int) -> str:
    """The name in the plan of a task of the array with this name; any other name stays as it is.

    The trace's numbers of the jobs of an array differ by the numbers of the tasks.
    """
    run, dot, first = name[: -len(SUFFIX)].rpartition(".")
    number = whole_number(first) if name.endswith(SUFFIX) and dot else None
    return name if number is None else f"{run}.{number + task}"
