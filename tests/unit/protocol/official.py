"""The official schemas and examples, if they are next to the project.

Otherwise the schemas of the two latest revisions come from the package mcp-types, whose models are generated from them. Tests that
need the others, or the examples, are skipped.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typing_extensions
from pydantic import TypeAdapter

SPEC = Path(__file__).resolve().parents[4] / "shared" / "spec"


@cache
def schema(revision: str) -> dict[str, Any]:
    """Return the schema of a revision, with the two errors fixed that CON-15 describes."""
    path = SPEC / "schema" / f"{revision}.json"
    loaded = json.loads(path.read_text()) if path.exists() else _schema_of_models(revision)
    found = loaded.get("definitions") or loaded["$defs"]
    _numbers_are_numbers(found.get("ElicitResult", {}))
    if "JSONValue" in found:
        found["JSONValue"] = {}
    return loaded


def _schema_of_models(revision: str) -> dict[str, Any]:
    try:
        models = vars(import_module(f"mcp_types._v{revision.replace('-', '_')}"))
    except ImportError:
        pytest.skip(f"neither ../shared/spec nor mcp-types has the official schema of {revision}")
    imported = {*vars(typing_extensions), "ConfigDict", "Field", "WireModel"}
    adapters = [
        (name, "validation", TypeAdapter(kind)) for name, kind in models.items() if name[0].isupper() and name not in imported
    ]
    aliases, document = TypeAdapter.json_schemas(adapters, ref_template="#/$defs/{model}")
    found = {**{name: node for (name, _), node in aliases.items()}, **document["$defs"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {name: _as_official(node, found) for name, node in found.items()},
    }


def _as_official(node: Any, found: dict[str, Any], inside: tuple[str, ...] = ()) -> Any:
    """Return a node as the schemas have it: absent members are not null, and members that are objects are described in place."""
    if isinstance(node, list):
        return [_as_official(each, found, inside) for each in node]
    if not isinstance(node, dict):
        return node
    if node.get("default", ...) is None:
        others = [each for each in node.get("anyOf", []) if each != {"type": "null"}]
        node = {key: each for key, each in node.items() if key not in {"default", "anyOf"}}
        node |= others[0] if len(others) == 1 else {"anyOf": others} if others else {}
    name = str(node.get("$ref")).rpartition("/")[2]
    if inside and name in found and name not in inside and "properties" in found[name]:
        return _as_official(found[name], found, (*inside, name))
    return {
        key: {member: _as_official(each, found, inside or ("",)) for member, each in part.items()}
        if key == "properties"
        else _as_official(part, found)
        for key, part in node.items()
    }


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


# Where each type is in a schema: the name of a definition, or a path below one. Several entries are alternatives.

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
    """Return the paths of a type in the schema; empty if the revision does not have it."""
    found = definitions(revision)
    there = [path for path in PLACES.get(name, [name]) if _at(found, path) is not None]
    if name == "ElicitParams" and "ElicitRequestFormParams" in there:
        there.remove("ElicitRequest/properties/params")
    if name == "StringSchema" and "LegacyTitledEnumSchema" in there:
        there.remove("EnumSchema")
    return there


def described(name: str, revision: str) -> list[dict[str, Any]]:
    """Return the objects at those paths, with references resolved."""
    found = definitions(revision)
    nodes = []
    for path in places(name, revision):
        node = _at(found, path)
        while "$ref" in node:
            node = found[node["$ref"].rpartition("/")[2]]
        nodes.append(node)
    return nodes


# Validation that also rejects members that the revision does not have; the schemas themselves allow them.

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
    """Return a validator for a type in a revision that rejects unknown members."""
    there = places(name, revision)
    assert there, f"{revision} has no {name}"
    key, loaded = _closed(revision)
    choices = [{"$ref": f"#/{key}/{path}"} for path in there]
    document = {"$schema": loaded["$schema"], key: loaded[key], "anyOf": choices}
    return jsonschema.validators.validator_for(document)(document)
