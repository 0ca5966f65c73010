"""Types of pydantic's, for authors who use it. twopipes never imports it: who has such a type has imported it already."""

from __future__ import annotations

import sys
from typing import Any

from twopipes._error_text import join_paths
from twopipes._protocol.rejections import Problem, Refused

_adapters: dict[Any, Any] = {}


def is_foreign(kind: Any) -> bool:
    """Whether a class is validated by pydantic: a model, a dataclass of pydantic's, or one of its special types."""
    return "pydantic" in sys.modules and (hasattr(kind, "__pydantic_validator__") or hasattr(kind, "__get_pydantic_core_schema__"))


def is_model(kind: Any) -> bool:
    """Whether a class is a ``BaseModel``, which msgspec gives to us wherever it meets it."""
    return is_foreign(kind) and hasattr(kind, "model_fields")


def is_field(value: Any) -> bool:
    """Whether something is what ``pydantic.Field(...)`` gives."""
    return type(value).__name__ == "FieldInfo" and type(value).__module__.startswith("pydantic")


def is_instruction(metadata: Any) -> bool:
    """Whether metadata of ``Annotated`` asks for something that only pydantic can do, such as a validator."""
    if is_field(metadata):
        return metadata.discriminator is not None or any(is_instruction(each) for each in metadata.metadata)
    # What a Field carries for itself: a bag of constraints by name, of which only the pattern is known elsewhere.
    is_pattern = type(metadata).__name__ == "_PydanticGeneralMetadata" and vars(metadata).keys() == {"pattern"}
    return type(metadata).__module__.startswith("pydantic") and not is_pattern


class FieldDefault:
    """The default that a ``pydantic.Field(...)`` holds, which pydantic would fill in."""

    def __init__(self, field: Any) -> None:
        self._field = field

    @property
    def is_constant(self) -> bool:
        """Whether it is a value, and not a factory."""
        return self._field.default_factory is None

    def __call__(self) -> Any:
        """The value."""
        return self._field.get_default(call_default_factory=True)


def default_in(extras: list[Any]) -> FieldDefault | None:
    """The default that metadata holds, if any."""
    return next((FieldDefault(each) for each in extras if is_field(each) and not each.is_required()), None)


def adapter(annotation: Any) -> Any:
    """Gives pydantic's own reader and writer of a type; made once."""
    try:
        found = _adapters.get(annotation)
    except TypeError:  # metadata without a hash
        return sys.modules["pydantic"].TypeAdapter(annotation)
    if found is None:
        found = _adapters[annotation] = sys.modules["pydantic"].TypeAdapter(annotation)
    return found


def schema(annotation: Any, *, is_output: bool, prefix: str = "") -> dict[str, Any]:
    """Gives the JSON Schema of a type, with its ``$defs``; ``prefix`` goes before the names of those."""
    found: dict[str, Any] = adapter(annotation).json_schema(
        mode="serialization" if is_output else "validation", ref_template="#/$defs/" + prefix + "{model}"
    )
    if prefix and "$defs" in found:
        found["$defs"] = {prefix + name: each for name, each in found["$defs"].items()}
    return found


def read(annotation: Any, value: Any) -> Any:
    """Makes what the type wants of a plain JSON value.

    Raises:
        Refused: The value does not fit.
    """
    try:
        return adapter(annotation).validate_python(value)
    except sys.modules["pydantic"].ValidationError as error:
        raise Refused(_problems(error)) from error


def _problems(error: Any) -> list[Problem]:
    found = []
    for each in error.errors(include_url=False, include_context=False):
        path = ""
        for step in each["loc"]:
            path += f"[{step}]" if isinstance(step, int) else join_paths(path, str(step))[len(path) :]
        found.append(Problem(path, each["msg"]))
    return found


def write(value: Any) -> Any:
    """Gives a value of one of pydantic's types as plain JSON, by the names that the schema has."""
    return adapter(type(value)).dump_python(value, mode="json", by_alias=True)
