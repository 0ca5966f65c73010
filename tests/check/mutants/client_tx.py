"""Clients that break the rules of the extension for tasks, one each."""

from check.mutation import raw_mutant
from check.raw_tasks import MODERN
from check.raw_tasks_client import task_client


@raw_mutant("TX-01")
def forgets_the_extension():
    return task_client("forgets-the-extension", revision=MODERN)


@raw_mutant("TX-04")
def drops_tasks():
    return task_client("drops-tasks", revision=MODERN)


@raw_mutant("TX-04")
def takes_tasks_everywhere():
    return task_client("tasks-everywhere", revision=MODERN)


@raw_mutant("TX-13")
def cancels_the_call_of_a_task():
    return task_client("cancels-the-call", revision=MODERN)


@raw_mutant("TX-14")
def polls_all_the_time():
    return task_client("hasty", revision=MODERN)


@raw_mutant("TX-14")
def repeats_itself():
    return task_client("repeats-itself", revision=MODERN)
