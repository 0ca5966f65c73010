"""Clients that break the rules of tasks of 2025-11-25, one each."""

from check.mutation import raw_mutant
from check.raw_tasks_client import task_client


@raw_mutant("TK-01")
def declares_true():
    return task_client("list-is-true")


@raw_mutant("TK-02")
def makes_tasks_that_it_does_not_declare():
    return task_client("undeclared", "eager")


@raw_mutant("TK-04")
def makes_a_task_of_everything():
    return task_client("all-tasks")


@raw_mutant("TK-04")
def calls_plainly_what_must_be_a_task():
    return task_client("plain-calls")


@raw_mutant("TK-05")
def makes_half_a_task():
    return task_client("without-ttl")


@raw_mutant("TK-06")
def brings_a_task_back_to_life():
    return task_client("comes-back")


@raw_mutant("TK-07")
def wraps_the_task():
    return task_client("wraps")


@raw_mutant("TK-07")
def has_another_error_for_unknown_tasks():
    return task_client("unknown-is-internal")


@raw_mutant("TK-08")
def does_not_name_the_task():
    return task_client("unrelated-result")


@raw_mutant("TK-08")
def does_not_wait_for_the_end():
    return task_client("early-result")


@raw_mutant("TK-09")
def cancels_what_has_ended():
    return task_client("cancels-the-dead")


@raw_mutant("TK-09")
def cancels_some_time_later():
    return task_client("cancels-later")


@raw_mutant("TK-10")
def lists_nothing():
    return task_client("forgets-in-list")


@raw_mutant("TK-11")
def looks_into_meta_first():
    return task_client("meta-wins")


@raw_mutant("TK-12")
def waits_for_notifications():
    return task_client("waits-to-be-told")


@raw_mutant("TK-12")
def polls_all_the_time():
    return task_client("hasty")


@raw_mutant("TK-13")
def leaves_a_task_in_need():
    return task_client("leaves-it-in-need")


@raw_mutant("TK-15")
def counts_its_tasks():
    return task_client("counts")
