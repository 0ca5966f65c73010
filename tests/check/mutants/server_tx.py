"""Servers that break the rules of the extension for tasks, one each."""

from check.mutation import Wire, message_mutant, raw_mutant, wire_mutant
from check.raw_tasks import task_server


@wire_mutant("TX-11")
def still_lists_tasks(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"tasks/list"', b'"tools/list"') + b"\n"


@wire_mutant("TX-11")
def still_looks_at_the_member(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"tools/call"', b'"oops"') + b"\n" if b'"task":' in line else None


@message_mutant("TX-11")
def still_declares_the_capability(message):
    capabilities = message.get("result", {}).get("capabilities")
    if capabilities is not None:
        capabilities["tasks"] = {}
    return message


@raw_mutant("TX-01")
def declares_true():
    return task_server("extension-is-true")


@raw_mutant("TX-02")
def makes_tasks_unasked():
    return task_server("unasked-tasks")


@raw_mutant("TX-03")
def makes_half_a_task():
    return task_server("without-ttl")


@raw_mutant("TX-03")
def makes_tasks_of_lists():
    return task_server("lists-become-tasks")


@raw_mutant("TX-05")
def knows_a_task_later():
    return task_server("late-tasks")


@raw_mutant("TX-06")
def keeps_the_result_to_itself():
    return task_server("keeps-results")


@raw_mutant("TX-07")
def acknowledges_with_the_task():
    return task_server("long-acknowledgements")


@raw_mutant("TX-08")
def rejects_stray_responses():
    return task_server("strict-updates")


@raw_mutant("TX-09")
def has_another_error_for_unknown_tasks():
    return task_server("unknown-is-internal")


@raw_mutant("TX-09")
def serves_clients_without_the_extension():
    return task_server("serves-strangers")


@raw_mutant("TX-10")
def fails_what_is_completed():
    return task_server("fail-fails")


@raw_mutant("TX-12")
def acknowledges_unknown_tasks():
    return task_server("tells-of-anything")


@raw_mutant("TX-12")
def acknowledges_tasks_without_the_extension():
    return task_server("tells-strangers")


@raw_mutant("TX-12")
def has_another_error_for_clients_without_the_extension():
    return task_server("refuses-strangers-in-its-own-way")


@raw_mutant("TX-13")
def mistakes_a_late_cancel_for_the_task():
    return task_server("cancelled-cancels")


@raw_mutant("TX-13")
def sends_progress_of_tasks():
    return task_server("tells-progress")


@raw_mutant("TX-13")
def sends_log_messages_of_tasks():
    return task_server("tells-the-log")


@raw_mutant("TX-15")
def counts_its_tasks():
    return task_server("counts")


@raw_mutant("TX-16")
def has_the_extension_after_a_handshake():
    return task_server("extension-after-a-handshake")
