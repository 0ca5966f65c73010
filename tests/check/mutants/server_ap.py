"""Servers that break the rules of extensions and apps, one each."""

from check.mutation import Wire, raw_mutant, wire_mutant
from check.raw_tasks import task_server


@wire_mutant("AP-01")
def rejects_unknown_extensions(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"server/discover"', b'"oops"') + b"\n" if b"com.example/unknown" in line else None


@wire_mutant("AP-01")
def lists_nothing_for_unknown_extensions(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"tools/list"', b'"oops"') + b"\n" if b"com.example/unknown" in line else None


@wire_mutant("AP-02")
def serves_the_host_of_a_page(wire: Wire):
    wire.to_subject = lambda line: line.replace(b'"ui/initialize"', b'"server/discover"') + b"\n"


@raw_mutant("AP-02")
def has_a_page_that_is_no_page():
    return task_server("page-of-another-type")


@raw_mutant("AP-02")
def has_a_page_somewhere_else():
    return task_server("page-elsewhere")


@raw_mutant("AP-03")
def shows_nothing_without_the_page():
    return task_server("app-without-text")
