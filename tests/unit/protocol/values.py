"""Values of our types for tests: instances with every member, and hypothesis strategies."""

from __future__ import annotations

import types as python_types
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import strategies as st
from msgspec import UNSET, Raw, structs

from twopipes import types
from twopipes._protocol import revisions
from twopipes._protocol import types as t
from twopipes._protocol.dialect import dialect


def all_models() -> list[type[t.Model]]:
    """Return every type that is sent, without the base classes."""
    families = {t.Model, t.MetaModel, t.Params, t.Result, t.CacheableResult, t.AnsweringParams}
    return sorted(
        {
            each
            for each in (getattr(types, name) for name in types.__all__)
            if isinstance(each, type) and issubclass(each, t.Model) and each not in families
        },
        key=lambda kind: kind.__name__,
    )


def models_by_revision() -> list[Any]:
    """Return every type with every revision that has it, as parameters of a test."""
    return [
        pytest.param(kind, revision, id=f"{kind.__name__}-{revision}")
        for kind in all_models()
        for revision in revisions.ALL
        if revisions.TYPES.get(kind.__name__, revisions.ALWAYS).has(revision)
    ]


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
JSON_OBJECTS = st.dictionaries(st.text(), ANY_JSON, max_size=3)
OBJECT_SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "$schema": st.just("https://json-schema.org/draft/2020-12/schema"),
        "properties": st.dictionaries(st.text(), st.booleans() | st.just({"type": "string"}), max_size=3),
        "required": st.lists(st.text(), max_size=2, unique=True),
    },
)
ANY_SCHEMAS = OBJECT_SCHEMAS | st.sampled_from([{}, {"type": "array", "items": {"type": "string"}}, {"oneOf": [{}]}])
PRIORITIES = st.floats(0, 1) | st.sampled_from([0, 1])
METAS = st.none() | st.dictionaries(st.sampled_from(["com.example/a", "b"]), ANY_JSON, max_size=2)
IDS = st.text() | st.integers(-(2**53), 2**53)
EMPTY = st.just({})
SHORT_LISTS = st.lists(st.text(), max_size=3)

FULL_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": True, "c": False},
    "required": ["a"],
}


def _maybe(*details: str) -> st.SearchStrategy[dict[str, Any] | None]:
    return st.none() | st.fixed_dictionaries({}, optional=dict.fromkeys(details, EMPTY))


def _flags(*details: str) -> st.SearchStrategy[dict[str, Any] | None]:
    return st.none() | st.fixed_dictionaries({}, optional={detail: st.booleans() for detail in details})


_EXTENSIONS = st.none() | st.dictionaries(st.sampled_from(["com.example/x", "io.modelcontextprotocol/ui"]), JSON_OBJECTS)
_EXPERIMENTAL = st.none() | st.dictionaries(st.text(), EMPTY, max_size=2)

# (type, attribute): a strategy and the value in a full instance. For other attributes both follow from the annotation.
MEMBERS: dict[tuple[type[t.Model], str], tuple[st.SearchStrategy[Any], Any]] = {
    (t.Annotations, "priority"): (st.none() | PRIORITIES, 0.5),
    (t.ModelPreferences, "cost_priority"): (st.none() | PRIORITIES, 0),
    (t.ModelPreferences, "speed_priority"): (st.none() | PRIORITIES, 1),
    (t.ModelPreferences, "intelligence_priority"): (st.none() | PRIORITIES, 0.5),
    (t.Icon, "theme"): (st.sampled_from([None, "light", "dark"]), "dark"),
    (t.Tool, "input_schema"): (OBJECT_SCHEMAS, FULL_SCHEMA),
    (t.Tool, "output_schema"): (st.none() | ANY_SCHEMAS, FULL_SCHEMA),
    (t.Completion, "values"): (st.lists(st.text(max_size=1), max_size=120), ["a"] * 101),
    (t.CancelledParams, "request_id"): (IDS, 7),
    (t.ClientCapabilities, "roots"): (_flags("listChanged"), {"listChanged": True}),
    (t.ClientCapabilities, "sampling"): (_maybe("context", "tools"), {"context": {}, "tools": {}}),
    (t.ClientCapabilities, "elicitation"): (_maybe("form", "url"), {"form": {}, "url": {}}),
    (t.ClientCapabilities, "tasks"): (_maybe("list", "cancel"), {"list": {}, "cancel": {}, "requests": {}}),
    (t.ClientCapabilities, "experimental"): (_EXPERIMENTAL, {"x": {}}),
    (t.ClientCapabilities, "extensions"): (_EXTENSIONS, {"com.example/x": {"a": 1}}),
    (t.ServerCapabilities, "tools"): (_flags("listChanged"), {"listChanged": True}),
    (t.ServerCapabilities, "prompts"): (_flags("listChanged"), {"listChanged": False}),
    (t.ServerCapabilities, "resources"): (_flags("listChanged", "subscribe"), {"listChanged": True, "subscribe": True}),
    (t.ServerCapabilities, "completions"): (_maybe(), {}),
    (t.ServerCapabilities, "logging"): (_maybe(), {}),
    (t.ServerCapabilities, "tasks"): (_maybe("list", "cancel"), {"list": {}, "cancel": {}, "requests": {}}),
    (t.ServerCapabilities, "experimental"): (_EXPERIMENTAL, {"x": {}}),
    (t.ServerCapabilities, "extensions"): (_EXTENSIONS, {"com.example/x": {}}),
    (t.InputRequiredResult, "request_state"): (st.text(), "s"),  # MR-02
    (t.ToolUseContent, "input"): (JSON_OBJECTS, {"a": 1}),
    (t.CreateMessageParams, "metadata"): (st.none() | JSON_OBJECTS, {"a": None, "b": 0.5}),
}


def _string_schemas() -> st.SearchStrategy[t.StringSchema]:
    words = st.none() | st.text()
    sizes = st.none() | st.integers(0, 100)
    formats = st.sampled_from([None, "email", "uri", "date", "date-time"])
    plain = st.builds(
        t.StringSchema, title=words, description=words, min_length=sizes, max_length=sizes, format=formats, default=words
    )
    named = st.lists(st.text(), min_size=1, max_size=3).flatmap(
        lambda enum: st.builds(
            t.StringSchema,
            title=words,
            description=words,
            enum=st.just(enum),
            enum_names=st.none() | st.just([each.upper() for each in enum]),
            default=words,
        )
    )
    titled = st.builds(
        t.StringSchema, title=words, description=words, one_of=st.lists(any_of(t.EnumOption), max_size=3), default=words
    )
    return plain | named | titled


def _elicit_params() -> st.SearchStrategy[t.ElicitParams]:
    forms = any_of(t.ElicitSchema).map(msgspec.to_builtins)
    form = st.builds(t.ElicitParams, st.text(), mode=st.sampled_from([None, "form"]), requested_schema=forms, meta=METAS)
    url = st.builds(
        t.ElicitParams, st.text(), mode=st.just("url"), url=st.just("https://a.test"), elicitation_id=st.text(), meta=METAS
    )
    return form | url


def _client_results() -> st.SearchStrategy[t.Result]:
    return st.one_of(any_of(t.ElicitResult), any_of(t.CreateMessageResult), any_of(t.ListRootsResult))


def as_input_response(result: t.Result) -> Raw:
    return Raw(msgspec.json.encode(dialect(revisions.LATEST_MODERN).fit(result)))


OPTION = t.EnumOption("a", "A")
FORM_FIELDS: dict[str, t.FieldSchema] = {
    "text": t.StringSchema("T", "D", 1, 9, "email", default="d"),
    "enum": t.StringSchema("T", "D", enum=["a", "b"], default="a"),
    "named": t.StringSchema("T", "D", enum=["a", "b"], enum_names=["A", "B"], default="a"),
    "titled": t.StringSchema("T", "D", one_of=[OPTION], default="a"),
    "number": t.NumberSchema("T", "D", 0.5, 9, 1.5),
    "integer": t.IntegerSchema("T", "D", 0, 9, 1),
    "boolean": t.BooleanSchema("T", "D", default=False),
    "many": t.MultiSelectSchema(t.SelectItems("string", enum=["a", "b"]), "T", "D", 0, 2, ["a"]),
    "many titled": t.MultiSelectSchema(t.SelectItems(any_of=[OPTION]), "T", "D", 0, 1, ["a"]),
}
FULL_FORM = t.ElicitSchema(FORM_FIELDS, ["text", "many"], "https://json-schema.org/draft/2020-12/schema")
META = {"com.example/a": 1}

# Types with several forms: a strategy, and full instances of each form.
KINDS: dict[type[t.Model], tuple[Any, list[t.Model]]] = {
    t.StringSchema: (_string_schemas, [FORM_FIELDS[name] for name in ("text", "enum", "named", "titled")]),
    t.SelectItems: (
        lambda: (
            st.builds(t.SelectItems, type=st.just("string"), enum=SHORT_LISTS)
            | st.builds(t.SelectItems, any_of=st.lists(any_of(t.EnumOption), max_size=3))
        ),
        [t.SelectItems("string", enum=["a"]), t.SelectItems(any_of=[OPTION])],
    ),
    t.MultiSelectSchema: (None, [FORM_FIELDS["many"], FORM_FIELDS["many titled"]]),
    t.ElicitSchema: (None, [FULL_FORM]),
    t.ElicitParams: (
        _elicit_params,
        [
            t.ElicitParams("m", "form", msgspec.to_builtins(FULL_FORM), meta=META),
            t.ElicitParams("m", "url", url="https://a.test", elicitation_id="e", meta=META),
        ],
    ),
    t.ResourceContents: (
        lambda: (
            st.builds(t.ResourceContents, st.text(), text=st.text(), mime_type=st.none() | st.text(), meta=METAS)
            | st.builds(t.ResourceContents, st.text(), blob=st.just("AA=="), mime_type=st.none() | st.text(), meta=METAS)
        ),
        [
            t.ResourceContents("a:b", text="t", mime_type="text/plain", meta=META),
            t.ResourceContents("a:b", blob="AA==", mime_type="a/b", meta=META),
        ],
    ),
    t.ElicitResult: (
        None,
        [
            t.ElicitResult("accept", {"a": "s", "b": 1, "c": 0.5, "d": True, "e": ["x"]}, meta=META),
            t.ElicitResult("decline", {"a": "s"}, meta=META),
        ],
    ),
}


def fulls(kind: type[t.Model]) -> list[Any]:
    """Return instances with every member, one for each form of the type."""
    if kind in KINDS:
        return KINDS[kind][1]
    members = {field.name: _full_member(kind, field) for field in structs.fields(kind)}
    return [kind(**members)]


def _full_member(kind: type[t.Model], field: structs.FieldInfo) -> Any:
    if field.name == "meta":
        return META
    if field.name == "result_type":
        return None
    if (kind, field.name) in MEMBERS:
        return MEMBERS[kind, field.name][1]
    if field.name == "input_responses":
        return {each.__class__.__name__: as_input_response(each) for each in _full_client_results()}
    return _full(field.type)[0]


def _full_client_results() -> list[t.Result]:
    return [fulls(kind)[0] for kind in (t.ElicitResult, t.CreateMessageResult, t.ListRootsResult)]


def _full(annotation: Any) -> list[Any]:
    """Return every form of a value of this annotation."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in {Union, python_types.UnionType}:
        forms = [form for each in args if each is not type(None) for form in _full(each)]
        return sorted(forms, key=lambda form: not isinstance(form, list))
    if origin is Literal:
        return [args[0]]
    if origin is list:
        return [_full(args[0])]
    if origin is dict:
        return [{f"key {number}": form for number, form in enumerate(_full(args[1]))}]
    if isinstance(annotation, type) and issubclass(annotation, t.Model):
        return fulls(annotation)
    return [{str: "s", int: 7, float: 0.5, bool: True, Any: {"any": [1, None]}, Raw: Raw(b'{"a":1}')}[annotation]]


def any_of(kind: type[t.Model]) -> st.SearchStrategy[Any]:
    """A strategy for instances of a type."""
    if kind in KINDS and KINDS[kind][0] is not None:
        return KINDS[kind][0]()
    members = {field.name: _member(kind, field) for field in structs.fields(kind)}
    return st.builds(kind, **members)


def _member(kind: type[t.Model], field: structs.FieldInfo) -> st.SearchStrategy[Any]:
    if field.name == "meta":
        return METAS
    if field.name == "result_type":
        return st.none()
    if field.name == "structured_content":
        return st.just(UNSET) | ANY_JSON
    if field.name == "input_responses":
        return st.none() | st.dictionaries(st.text(), _client_results().map(as_input_response), max_size=2)
    if (kind, field.name) in MEMBERS:
        return MEMBERS[kind, field.name][0]
    if field.type is Raw:
        return st.none() | JSON_OBJECTS.map(msgspec.json.encode).map(Raw)
    return _any(field.type)


def _any(annotation: Any) -> st.SearchStrategy[Any]:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in {Union, python_types.UnionType}:
        return st.one_of([_any(each) for each in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is list:
        return st.lists(_any(args[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(st.text(max_size=5), _any(args[1]), max_size=3)
    if isinstance(annotation, type) and issubclass(annotation, t.Model):
        return st.deferred(lambda: any_of(annotation))
    return {
        str: st.text(),
        int: st.integers(0, 2**53),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
        Any: ANY_JSON,
    }[annotation]
