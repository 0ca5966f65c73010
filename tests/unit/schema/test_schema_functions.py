"""Functions of every kind: their signatures, and which are rejected."""

import dataclasses
import functools
import inspect
import operator
import subprocess
import sys
import textwrap
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import pytest
from jsonschema import Draft202012Validator

from twopipes._schema.problems import ArgumentsRejected
from twopipes._schema.signature import describe
from twopipes.errors import SignatureRejected, TwopipesError

T = TypeVar("T")


class Context(Generic[T]):
    """The object that a server passes to a tool."""


class SpecialContext(Context):
    pass


def add(a: int, b: int = 2) -> int:
    """Adds two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


async def wait(seconds: float) -> None:
    """Waits."""


class Thing:
    """A callable object."""

    async def __call__(self, a: int) -> None:
        pass

    def method(self, a: int) -> str:
        """Does it."""

    @classmethod
    def of_class(cls, a: int) -> None: ...

    @staticmethod
    def static(a: int) -> None: ...


class Documented:
    def __call__(self, a: int) -> None:
        """Calls."""


def test_a_function_is_described():
    found = describe(add)
    assert found.name == "add"
    assert found.description == "Adds two numbers."
    assert found.is_async is False
    assert found.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first."},
            "b": {"type": "integer", "description": "The second.", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert found.injected_names == ()
    assert repr(found) == "<Signature of add(a, b)>"


def test_a_function_without_parameters_accepts_only_an_empty_object():
    """TL-01, TL-02."""
    found = describe(lambda: None)
    assert found.input_schema == {"type": "object", "additionalProperties": False}
    assert found.bind(None) == found.bind(b"{}") == found.bind(msgspec.Raw(b" { } ")) == {}
    with pytest.raises(ArgumentsRejected, match="none are expected"):
        found.bind(b'{"a":1}')


def synchronous(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def asynchronous(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    ("function", "name", "description", "is_async", "names"),
    [
        (wait, "wait", "Waits.", True, ["seconds"]),
        (synchronous(wait), "wait", "Waits.", True, ["seconds"]),
        (asynchronous(add), "add", "Adds two numbers.", True, ["a", "b"]),
        (functools.partial(add, 1), "add", "Adds two numbers.", False, ["b"]),
        (functools.partial(functools.partial(wait)), "wait", "Waits.", True, ["seconds"]),
        (Thing().method, "method", "Does it.", False, ["a"]),
        (functools.partial(Thing().method), "method", "Does it.", False, ["a"]),
        (Thing.of_class, "of_class", "", False, ["a"]),
        (Thing.static, "static", "", False, ["a"]),
        (Thing(), "Thing", "A callable object.", True, ["a"]),
        (functools.partial(Thing()), "Thing", "A callable object.", True, ["a"]),
        (Documented(), "Documented", "Calls.", False, ["a"]),
        (lambda a: a, "<lambda>", "", False, ["a"]),
        (functools.cache(add), "add", "Adds two numbers.", False, ["a", "b"]),
        (len, "len", "Return the number of items in a container.", False, None),
    ],
)
def test_every_kind_of_callable_is_described(function, name, description, is_async, names):
    if names is None:
        with pytest.raises(SignatureRejected, match="by name"):
            describe(function)
        return
    found = describe(function)
    assert (found.name, found.description, found.is_async) == (name, description, is_async)
    assert [each.wire_name for each in found.fields] == names


def test_a_partial_keeps_what_it_binds_as_a_default():
    assert describe(functools.partial(add, b=5)).input_schema["properties"]["b"]["default"] == 5


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda *values: None, r"parameter values: .*use a list"),
        (lambda **values: None, r"parameter values: .*use a dict"),
        (eval("lambda value, /: None"), r"parameter value: arguments are passed by name"),
        (Thing, "not a function"),
        (7, "not a function"),
        (operator.attrgetter("x"), "cannot be read|by name"),
        (dict.fromkeys, "by name|cannot be read"),
        (type("Odd", (), {"__call__": int})(), "cannot be read|by name|parameter"),
    ],
)
def test_parameters_without_a_name_are_rejected(function, why):
    with pytest.raises(SignatureRejected, match=why) as caught:
        describe(function)
    assert isinstance(caught.value, TwopipesError)
    assert isinstance(caught.value, TypeError)


def test_a_callable_without_a_signature_is_rejected():
    class Hidden:
        __signature__ = "none"

        def __call__(self): ...

    with pytest.raises(SignatureRejected, match="cannot be read"):
        describe(Hidden())


def test_the_context_is_found_at_any_position():
    async def function(
        a: int,
        one: Context,
        two: Context[int] | None = None,
        three: Annotated[Context | None, "x"] = None,
        *,
        four: "SpecialContext" = None,
        b: str = "",
    ) -> Context: ...

    found = describe(function, injected=(Context,))
    assert found.injected_names == ("one", "two", "three", "four")
    assert list(found.input_schema["properties"]) == ["a", "b"]
    assert found.output_schema is None
    assert found.bind(b'{"a":1}') == {"a": 1}
    with pytest.raises(SignatureRejected, match="Context cannot be represented"):
        describe(function)


def test_a_positional_only_context_is_rejected():
    with pytest.raises(SignatureRejected, match="parameter context: arguments are passed by name"):
        describe(positional, injected=(Context,))


def positional(context: Context, /): ...


def test_annotated_takes_precedence_over_the_docstring():
    def function(a: Annotated[int, "From the annotation."], b: int):
        """Does.

        :param a: From the docstring.
        :param b: From the docstring.
        """

    found = describe(function)
    properties = found.input_schema["properties"]
    assert [properties[name]["description"] for name in "ab"] == [
        "From the annotation.",
        "From the docstring.",
    ]
    assert found.fields[0].is_required


def test_a_parameter_can_have_another_name_in_json():
    def function(from_: Annotated[str, msgspec.Meta(extra={"name": "from"})], to: Annotated[str, msgspec.Meta(extra={})] = "x"): ...

    found = describe(function)
    assert found.input_schema["required"] == ["from"]
    assert found.bind(b'{"from":"here"}') == {"from_": "here"}
    assert found.fields[0].wire_name == "from"

    def twice(a: Annotated[str, msgspec.Meta(extra={"name": "b"})], b: str): ...

    with pytest.raises(SignatureRejected, match="two parameters have this name"):
        describe(twice)


# Annotations that are strings


FUTURE = """
from __future__ import annotations
import dataclasses
from typing import TYPE_CHECKING, NotRequired, TypedDict
from twopipes._schema.signature import describe
if TYPE_CHECKING:
    from nowhere import Never

@dataclasses.dataclass
class Tree:
    leaves: list[Tree]

class Movie(TypedDict):
    title: str
    year: NotRequired[int]

class Holder:
    Inner = int
    def method(self, a: Tree) -> list[Tree]: ...

def top(tree: Tree, movie: Movie, other: "Tree | None" = None) -> Tree: ...
def bad(x: Never): ...

def local():
    @dataclasses.dataclass
    class Part:
        number: int

    @dataclasses.dataclass
    class Whole:
        parts: list[Part]

    class Thing:
        def method(self, part: Part): ...

    def tool(whole: Whole, part: Part | None = None) -> Part:
        return part or whole.parts[0]

    return describe(tool), tool, Whole, Part, describe(Thing().method)

def captured():
    class Part(TypedDict):
        number: int
    def tool(part: Part):
        return Part, later
    found = tool
    if found is None:
        later = 3
    return tool
"""


@pytest.fixture(scope="module")
def future():
    module = type(sys)("future_annotations")
    sys.modules[module.__name__] = module
    exec(textwrap.dedent(FUTURE), module.__dict__)
    yield module
    del sys.modules[module.__name__]


def test_annotations_that_are_strings_are_resolved(future):
    found = describe(future.top)
    Draft202012Validator.check_schema(found.input_schema)
    assert found.input_schema["properties"]["movie"]["required"] == ["title"]
    assert found.bind(b'{"tree":{"leaves":[{"leaves":[]}]},"movie":{"title":"M"}}') == {
        "tree": future.Tree([future.Tree([])]),
        "movie": {"title": "M"},
    }
    assert found.output_schema["properties"]["leaves"]["items"] == {"$ref": "#/$defs/Tree"}
    assert describe(future.Holder().method).bind(b'{"a":{"leaves":[]}}') == {"a": future.Tree([])}


def test_types_of_the_enclosing_function_are_found(future):
    """While the decorator runs, the enclosing function is still running."""
    found, _, whole, part, method = future.local()
    assert found.bind(b'{"whole":{"parts":[{"number":1}]}}') == {"whole": whole([part(1)])}
    assert bytes(found.output.encode(part(3), "f")) == b'{"number":3}'
    assert method.bind(b'{"part":{"number":1}}') == {"part": part(1)}


def test_types_used_by_the_function_are_found_later(future):
    assert describe(future.captured()).bind(b'{"part":{"number":1}}') == {"part": {"number": 1}}


def test_a_type_that_no_longer_exists_is_named(future):
    with pytest.raises(SignatureRejected, match="bad, parameter x: the annotation 'Never' cannot be resolved"):
        describe(future.bad)
    _, tool, *_ = future.local()
    with pytest.raises(SignatureRejected, match="tool, parameter whole: the annotation 'Whole' cannot be resolved"):
        describe(tool)


# Schemas written by hand


def test_a_handwritten_schema_replaces_the_generated_one():
    """JS-01, JS-07: any keyword of 2020-12, at the root too."""
    by_hand = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "pair": {"prefixItems": [{"type": "integer"}]}},
        "oneOf": [{"required": ["a"]}, {"required": ["pair"]}],
        "dependentRequired": {"a": ["pair"]},
        "$defs": {"x": {"type": "integer"}},
    }

    def function(**arguments): ...

    found = describe(function, input_schema=by_hand)
    assert found.input_schema == by_hand
    Draft202012Validator.check_schema(found.input_schema)
    assert found.bind(b'{"pair":[1],"more":{"x":1}}') == {"pair": [1], "more": {"x": 1}}
    assert found.fields == ()

    def typed(a: int, **rest): ...

    mixed = describe(typed, input_schema={"type": "object", "properties": {"a": {"description": "By hand."}, "b": True}})
    assert mixed.bind(b'{"a":1.0,"b":2}') == {"a": 1, "b": 2}
    assert mixed.input_schema["properties"]["a"]["description"] == "By hand."
    with pytest.raises(ArgumentsRejected, match="a: This argument is missing"):
        mixed.bind(b"{}")


def test_a_handwritten_schema_must_match_the_function():
    """TL-01."""
    with pytest.raises(SignatureRejected, match='"type": "object"'):
        describe(add, input_schema={"properties": {}})
    with pytest.raises(SignatureRejected, match="has c, but the function has no such parameter"):
        describe(add, input_schema={"type": "object", "properties": {"a": {}, "c": {}}})


def test_a_handwritten_schema_is_copied():
    by_hand = {"type": "object"}
    describe(lambda: None, input_schema=by_hand).input_schema["x"] = 1
    assert by_hand == {"type": "object"}


def test_the_signature_set_by_a_decorator_is_used():
    def wrapper(**kwargs): ...

    wrapper.__signature__ = inspect.Signature([inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=int)])
    assert list(describe(wrapper).input_schema["properties"]) == ["x"]


def test_nothing_heavy_is_imported():
    program = """
        import sys
        from twopipes._schema.signature import describe
        import twopipes._schema.form_types, twopipes._protocol.uri_template
        def f(a: int, b: list[str] | None = None) -> dict[str, int]: ...
        describe(f).bind(b'{"a":1}')
        print(sorted({"pydantic", "attrs", "attr", "asyncio", "dataclasses", "difflib", "pathlib", "json"} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-I", "-c", textwrap.dedent(program)], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_a_default_factory_is_shown_only_if_calling_it_is_safe():
    @dataclasses.dataclass
    class Options:
        tags: list[str] = dataclasses.field(default_factory=list)
        made: Any = dataclasses.field(default_factory=lambda: pytest.fail("called"))

    def function(options: Options): ...

    found = describe(function).input_schema["properties"]["options"]
    assert found["properties"] == {"tags": {"type": "array", "items": {"type": "string"}, "default": []}, "made": {}}
