"""The report of a check as SARIF 2.1.0, which code hosts and editors show, and as the data of a badge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twopipes._version import __version__

if TYPE_CHECKING:
    from twopipes._tools.check.report import Judgement
    from twopipes._tools.check.verdict import CheckResult

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
# Findings need a file. This name is used for a server whose command contains none.
NO_FILE = "mcp-server"


def sarif(outcome: CheckResult, broken: list[Judgement], details: dict[str, str], *, subject: str | None) -> dict[str, Any]:
    """Return the report.

    Args:
        outcome: the result of the run.
        broken: the rules that were broken.
        details: the text of each finding, by the id of its rule.
        subject: the file that findings point to, relative to the root of the repository.
    """
    driver = {
        "name": "twopipes check",
        "informationUri": "https://modelcontextprotocol.io",
        "semanticVersion": __version__,
        "rules": [_rule(judgement) for judgement in broken],
    }
    results = [_result(judgement, number, details, subject or NO_FILE) for number, judgement in enumerate(broken)]
    about = {"side": outcome.side, "peer": outcome.peer, "revisions": outcome.revisions}
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": bool(outcome.revisions)}],
        "results": results,
        "properties": about,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(judgement: Judgement) -> dict[str, Any]:
    rule = judgement.rule
    fixes = [verdict.fix for verdict in judgement.failures if verdict.fix]
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "helpUri": rule.link,
        "help": {"text": fixes[0] if fixes else f"{rule.degree}: {rule.title}"},
        "defaultConfiguration": {"level": judgement.kind},
        "properties": {"tags": ["model-context-protocol", rule.section], "precision": "high"},
    }


def _result(judgement: Judgement, number: int, details: dict[str, str], subject: str) -> dict[str, Any]:
    rule = judgement.rule
    revisions = dict.fromkeys(verdict.revision for verdict in judgement.failures if verdict.revision)
    return {
        "ruleId": rule.id,
        "ruleIndex": number,
        "level": judgement.kind,
        "message": {"text": details[rule.id]},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": subject}, "region": {"startLine": 1}}}],
        # The same finding of two runs is one alert, whatever its text quotes.
        "partialFingerprints": {"twopipesRule/v1": f"{rule.id}:{subject}"},
        "properties": {"revisions": list(revisions)},
    }


def badge(counts: dict[str, int], revisions: list[str]) -> dict[str, Any]:
    """Return the data of a badge, in the format that shields.io reads from a URL."""
    if not revisions:
        message, colour = "no connection", "lightgrey"
    elif counts["error"]:
        message, colour = f"{counts['error']} of {counts['error'] + counts['passed']} rules broken", "red"
    else:
        message, colour = (
            f"{counts['passed']} rule{'' if counts['passed'] == 1 else 's'} passed",
            "yellow" if counts["warning"] else "brightgreen",
        )
    return {"schemaVersion": 1, "label": "MCP", "message": message, "color": colour, "isError": bool(counts["error"])}
