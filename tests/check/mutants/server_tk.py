"""Servers that break the rules of tasks of 2025-11-25, one each."""

from check.mutation import Wire, raw_mutant, wire_mutant
from check.raw_tasks import task_server


@wire_mutant("TK-02")
def makes_tasks_that_it_does_not_declare(wire: Wire):
    def answer(line):
        if b'"task":' in line:
            return line.replace(b'"tools/call"', b'"oops"') + b"\n"
        return None

    wire.to_subject = answer


@raw_mutant("TK-01")
def declares_true():
    return task_server("list-is-true")


@raw_mutant("TK-03")
def runs_plainly_what_must_be_a_task():
    return task_server("runs-plainly")


@raw_mutant("TK-05")
def makes_half_a_task():
    return task_server("without-ttl")


@raw_mutant("TK-06")
def brings_a_task_back_to_life():
    return task_server("comes-back")


@raw_mutant("TK-07")
def wraps_the_task():
    return task_server("wraps")


@raw_mutant("TK-07")
def has_another_error_for_unknown_tasks():
    return task_server("unknown-is-internal")


@raw_mutant("TK-08")
def does_not_name_the_task():
    return task_server("unrelated-result")


@raw_mutant("TK-08")
def does_not_wait_for_the_end():
    return task_server("early-result")


@raw_mutant("TK-09")
def cancels_what_has_ended():
    return task_server("cancels-the-dead")


@raw_mutant("TK-09")
def cancels_some_time_later():
    return task_server("cancels-later")


@raw_mutant("TK-09")
def completes_what_was_cancelled():
    return task_server("overwrites")


@raw_mutant("TK-08")
def gives_the_text_alone():
    return task_server("bare-text")


@raw_mutant("TK-10")
def lists_nothing():
    return task_server("forgets-in-list")


@raw_mutant("TK-11")
def looks_into_meta_first():
    return task_server("meta-wins")


@raw_mutant("TK-11")
def asks_for_no_task_in_particular():
    return task_server("unrelated-question")


@raw_mutant("TK-12")
def sends_half_of_a_task():
    return task_server("tells-half")


@raw_mutant("TK-13")
def never_says_that_it_needs_input():
    return task_server("never-in-need")


@raw_mutant("TK-14")
def completes_what_has_failed():
    return task_server("fail-completes")


@raw_mutant("TK-15")
def counts_its_tasks():
    return task_server("counts")
