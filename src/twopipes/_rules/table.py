"""The table of all rules, collected from the modules of the sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from msgspec import structs

from twopipes._rules import (
    caching,
    cancellation,
    capabilities,
    completion,
    content,
    discovery,
    elicitation,
    eras,
    errors,
    extensions,
    framing,
    http,
    http_headers,
    json_schema,
    jsonrpc,
    lifecycle,
    logging,
    metadata,
    pagination,
    ping,
    progress,
    prompts,
    resources,
    roots,
    round_trips,
    sampling,
    shutdown,
    statelessness,
    subscriptions,
    tasks,
    tasks_2025,
    timeouts,
    tools,
)
from twopipes._rules.rule import Rule
from twopipes.errors import LocalProtocolError

__all__ = ["RULES", "SECTIONS", "Topic", "chosen", "over", "rules_for"]


class Topic(NamedTuple):
    """A section of the rules: its name in modules and folders, its title, and its rows."""

    name: str
    title: str
    rules: Mapping[str, Rule]


SECTIONS = {
    "FR": Topic("framing", "Framing and streams", framing.RULES),
    "JR": Topic("jsonrpc", "Messages, ids, batches", jsonrpc.RULES),
    "ER": Topic("errors", "Error codes", errors.RULES),
    "LC": Topic("lifecycle", "The handshake", lifecycle.RULES),
    "VN": Topic("discovery", "Self-contained requests, versions, discovery", discovery.RULES),
    "DE": Topic("eras", "Both eras side by side", eras.RULES),
    "ST": Topic("statelessness", "Statelessness", statelessness.RULES),
    "MT": Topic("metadata", "Keys of `_meta` and trace context", metadata.RULES),
    "CP": Topic("capabilities", "Capabilities", capabilities.RULES),
    "PI": Topic("ping", "Ping", ping.RULES),
    "CA": Topic("cancellation", "Cancellation", cancellation.RULES),
    "TO": Topic("timeouts", "Timeouts", timeouts.RULES),
    "PR": Topic("progress", "Progress", progress.RULES),
    "LG": Topic("logging", "Logging", logging.RULES),
    "PG": Topic("pagination", "Pagination", pagination.RULES),
    "CM": Topic("completion", "Completion", completion.RULES),
    "TL": Topic("tools", "Tools", tools.RULES),
    "CT": Topic("content", "Content blocks, annotations, icons", content.RULES),
    "RS": Topic("resources", "Resources", resources.RULES),
    "PM": Topic("prompts", "Prompts", prompts.RULES),
    "RT": Topic("roots", "Roots", roots.RULES),
    "SA": Topic("sampling", "Sampling", sampling.RULES),
    "EL": Topic("elicitation", "Elicitation", elicitation.RULES),
    "MR": Topic("round_trips", "Multi round-trip requests", round_trips.RULES),
    "SU": Topic("subscriptions", "Subscriptions", subscriptions.RULES),
    "CH": Topic("caching", "Caching", caching.RULES),
    "JS": Topic("json_schema", "JSON Schema", json_schema.RULES),
    "TK": Topic("tasks_2025", "Tasks of 2025-11-25", tasks_2025.RULES),
    "TX": Topic("tasks", "Tasks (extension of 2026-07-28)", tasks.RULES),
    "AP": Topic("extensions", "Apps and other extensions", extensions.RULES),
    "SD": Topic("shutdown", "Shutdown and restart", shutdown.RULES),
    "HT": Topic("http", "Streamable HTTP", {**http.RULES, **http_headers.RULES}),
}
"""The sections by the two letters that their ids start with, in reading order."""


def _collect() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for topic in SECTIONS.values():
        for name, rule in topic.rules.items():
            if name in rules:
                raise LocalProtocolError(f"the rule {name} is in the table twice")
            rules[name] = structs.replace(rule, id=name)
    order = list(SECTIONS)
    return {rule.id: rule for rule in sorted(rules.values(), key=lambda rule: order.index(rule.section))}


RULES: Mapping[str, Rule] = _collect()
"""All rules by id, in reading order."""


def rules_for(side: Literal["server", "client"]) -> list[Rule]:
    """Return the rules that bind a server or a client."""
    return [rule for rule in RULES.values() if rule.binds(side)]


def chosen(only: Iterable[str] = (), skip: Iterable[str] = ()) -> set[str]:
    """Return the ids of the selected rules.

    Args:
        only: Ids (``FR-04``) and sections (``FR``) to select; everything if empty.
        skip: Ids and sections to leave out.

    Raises:
        LocalProtocolError: A rule or section does not exist.
    """
    wanted = {each for name in only for each in _named(name)} or set(RULES)
    return wanted - {each for name in skip for each in _named(name)}


def over(transport: Literal["http", "stream"], ids: Iterable[str]) -> set[str]:
    """Return the ids without those of HTTP, for a peer that is not reached over HTTP; all, if they are only about HTTP."""
    found = set(ids)
    return found if transport == "http" else {each for each in found if RULES[each].section != "HT"} or found


def _named(name: str) -> list[str]:
    name = name.strip().upper()
    found = [rule.id for rule in RULES.values() if name in {rule.id, rule.section}]
    if not found:
        raise LocalProtocolError(f"unknown rule or section {name!r}; see twopipes check --list")
    return found
