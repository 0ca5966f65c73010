"""Support for the types of pydantic. twopipes never imports it: an author who uses such a type has imported it."""

from __future__ import annotations

import sys
from typing import Any

from twopipes._error_text import join_paths
from twopipes._schema.problems import Refused
from twopipes.errors import Problem

_adapters: dict[Any, Any] = {}


def is_foreign(kind: Any) -> bool:
    """Return whether pydantic validates a class: a model, a pydantic dataclass, or one of its special types."""
    return "pydantic" in sys.modules and (hasattr(kind, "__pydantic_validator__") or hasattr(kind, "__get_pydantic_core_schema__"))


def is_model(kind: Any) -> bool:
    """Return whether a class is a ``BaseModel``, for which msgspec calls our hooks."""
    return is_foreign(kind) and hasattr(kind, "model_fields")


def is_field(value: Any) -> bool:
    """Return whether a value is the result of ``pydantic.Field(...)``."""
    return type(value).__name__ == "FieldInfo" and type(value).__module__.startswith("pydantic")


def is_instruction(metadata: Any) -> bool:
    """Return whether metadata of ``Annotated`` needs pydantic itself, such as a validator."""
    if is_field(metadata):
        return metadata.discriminator is not None or any(is_instruction(each) for each in metadata.metadata)
    # A Field keeps some constraints in an object of this class; of these only the pattern is supported without pydantic.
    is_pattern = type(metadata).__name__ == "_PydanticGeneralMetadata" and vars(metadata).keys() == {"pattern"}
    return type(metadata).__module__.startswith("pydantic") and not is_pattern


def default_in(extras: list[Any]) -> Any:
    """Return the ``pydantic.Field(...)`` in metadata that has a default, if any."""
    return next((each for each in extras if is_field(each) and not each.is_required()), None)


def adapter(annotation: Any) -> Any:
    """Return the ``TypeAdapter`` of a type, which is cached."""
    try:
        found = _adapters.get(annotation)
    except TypeError:  # unhashable metadata
        return sys.modules["pydantic"].TypeAdapter(annotation)
    if found is None:
        found = _adapters[annotation] = sys.modules["pydantic"].TypeAdapter(annotation)
    return found


def schema(annotation: Any, *, is_output: bool, prefix: str = "") -> dict[str, Any]:
    """Return the JSON Schema of a type, with its ``$defs``; ``prefix`` is added to their names."""
    found: dict[str, Any] = adapter(annotation).json_schema(
        mode="serialization" if is_output else "validation", ref_template="#/$defs/" + prefix + "{model}"
    )
    if prefix and "$defs" in found:
        found["$defs"] = {prefix + name: each for name, each in found["$defs"].items()}
    return found


def read(annotation: Any, value: Any) -> Any:
    """Convert a plain JSON value to the type, or raise :class:`Refused`."""
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
    """Return a value of a pydantic type as plain JSON, with the names of the schema."""
    return adapter(type(value)).dump_python(value, mode="json", by_alias=True)
