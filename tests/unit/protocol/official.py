"""The official schemas and examples, where they lie beside the project; tests that need them say so when they do not."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

SPEC = Path(__file__).resolve().parents[4] / "shared" / "spec"


@cache
def schema(revision: str) -> dict[str, Any]:
    """The schema of a revision, with the two flaws mended that CON-15 names."""
    path = SPEC / "schema" / f"{revision}.json"
    if not path.exists():
        pytest.skip(f"the official schema of {revision} is not here (looked for ../shared/spec)")
    loaded = json.loads(path.read_text())
    found = loaded.get("definitions") or loaded["$defs"]
    _numbers_are_numbers(found.get("ElicitResult", {}))
    if "JSONValue" in found:
        found["JSONValue"] = {}
    return loaded


def definitions(revision: str) -> dict[str, Any]:
    loaded = schema(revision)
    return loaded.get("definitions") or loaded["$defs"]


def _numbers_are_numbers(node: Any) -> None:
    if isinstance(node, dict):
        if isinstance(node.get("type"), list) and "integer" in node["type"]:
            node["type"] = ["number" if each == "integer" else each for each in node["type"]]
        for each in node.values():
            _numbers_are_numbers(each)
    elif isinstance(node, list):
        for each in node:
            _numbers_are_numbers(each)


def examples() -> list[Path]:
    return sorted((SPEC / "examples-2026-07-28").glob("*/*.json"))


# Where each of our types stands in a schema: the name of a definition, or a path below one. Several mean: one of them.

REQUEST_OF = {
    "InitializeParams": "InitializeRequest",
    "ListParams": "ListToolsRequest",
    "CallToolParams": "CallToolRequest",
    "ReadResourceParams": "ReadResourceRequest",
    "GetPromptParams": "GetPromptRequest",
    "SubscribeParams": "SubscribeRequest",
    "UnsubscribeParams": "UnsubscribeRequest",
    "CompleteParams": "CompleteRequest",
    "SetLevelParams": "SetLevelRequest",
    "ListenParams": "SubscriptionsListenRequest",
    "CreateMessageParams": "CreateMessageRequest",
}
NOTIFICATION_OF = {
    "CancelledParams": "CancelledNotification",
    "ProgressParams": "ProgressNotification",
    "LogParams": "LoggingMessageNotification",
    "ResourceUpdatedParams": "ResourceUpdatedNotification",
    "AcknowledgedParams": "SubscriptionsAcknowledgedNotification",
    "ElicitationCompleteParams": "ElicitationCompleteNotification",
}
PLACES = {
    "ResourceContents": ["TextResourceContents", "BlobResourceContents"],
    "IntegerSchema": ["NumberSchema"],
    "StringSchema": [
        "StringSchema",
        "EnumSchema",
        "UntitledSingleSelectEnumSchema",
        "TitledSingleSelectEnumSchema",
        "LegacyTitledEnumSchema",
    ],
    "MultiSelectSchema": ["UntitledMultiSelectEnumSchema", "TitledMultiSelectEnumSchema"],
    "EnumOption": ["TitledSingleSelectEnumSchema/properties/oneOf/items"],
    "SelectItems": [
        "UntitledMultiSelectEnumSchema/properties/items",
        "TitledMultiSelectEnumSchema/properties/items",
    ],
    "Completion": ["CompleteResult/properties/completion"],
    "CompletionArgument": [
        "CompleteRequest/properties/params/properties/argument",
        "CompleteRequestParams/properties/argument",
    ],
    "CompletionContext": [
        "CompleteRequest/properties/params/properties/context",
        "CompleteRequestParams/properties/context",
    ],
    "ResourceReference": ["ResourceReference", "ResourceTemplateReference"],
    "Annotations": ["Annotations", "Annotated/properties/annotations"],
    "ElicitSchema": [
        "ElicitRequest/properties/params/properties/requestedSchema",
        "ElicitRequestFormParams/properties/requestedSchema",
    ],
    "ElicitParams": ["ElicitRequestFormParams", "ElicitRequestURLParams", "ElicitRequest/properties/params"],
    "EmptyParams": ["PingRequest/properties/params", "DiscoverRequest/properties/params"],
    **{name: [f"{request}/properties/params"] for name, request in {**REQUEST_OF, **NOTIFICATION_OF}.items()},
}


def _at(found: dict[str, Any], path: str) -> Any:
    node: Any = found
    for step in path.split("/"):
        node = node.get(step) if isinstance(node, dict) else None
    return node


def places(name: str, revision: str) -> list[str]:
    """The paths in the schema where the type of ours is described; none where the revision does not have it."""
    found = definitions(revision)
    there = [path for path in PLACES.get(name, [name]) if _at(found, path) is not None]
    if name == "ElicitParams" and "ElicitRequestFormParams" in there:
        there.remove("ElicitRequest/properties/params")
    if name == "StringSchema" and "LegacyTitledEnumSchema" in there:
        there.remove("EnumSchema")
    return there


def described(name: str, revision: str) -> list[dict[str, Any]]:
    """The objects at those places, references followed."""
    found = definitions(revision)
    nodes = []
    for path in places(name, revision):
        node = _at(found, path)
        while "$ref" in node:
            node = found[node["$ref"].rpartition("/")[2]]
        nodes.append(node)
    return nodes


# Validation that also refuses members which the revision does not know: the schemas themselves are open.

_OPEN = ("_meta", "inputSchema", "outputSchema", "error", "experimental", "extensions")


def _close(node: Any, name: str = "") -> None:
    if isinstance(node, list):
        for each in node:
            _close(each)
    elif isinstance(node, dict):
        if node.get("type") == "object" and node.get("properties"):
            node["additionalProperties"] = False
            if name == "params":
                node["properties"].setdefault("_meta", {"type": "object"})
        for key, each in node.items():
            if key not in _OPEN:
                _close(each, key)


@cache
def _closed(revision: str) -> tuple[str, dict[str, Any]]:
    loaded = copy.deepcopy(schema(revision))
    key = "definitions" if "definitions" in loaded else "$defs"
    for name, node in loaded[key].items():
        if not name.endswith("MetaObject") and not name.startswith("JSONRPC"):
            _close(node)
    return key, loaded


@cache
def validator(name: str, revision: str) -> Any:
    """A validator for one of our types in a revision, closed against unknown members."""
    there = places(name, revision)
    assert there, f"{revision} has no {name}"
    key, loaded = _closed(revision)
    choices = [{"$ref": f"#/{key}/{path}"} for path in there]
    document = {"$schema": loaded["$schema"], key: loaded[key], "anyOf": choices}
    return jsonschema.validators.validator_for(document)(document)
