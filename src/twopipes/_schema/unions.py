"""Types that msgspec cannot read by itself: ambiguous unions and types of pydantic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from msgspec import ValidationError

from twopipes._schema import pydantic_bridge
from twopipes._schema.custom_types import StandIn, converted, is_readable, stand_in
from twopipes._schema.problems import Refused, Unsupported, given, problems_in
from twopipes._schema.records import Record
from twopipes._schema.shapes import CUSTOM, Book, Compound, Constraints, Schema, Shape, unwrapped
from twopipes.errors import Problem


class Foreign(Shape):
    """A type that pydantic reads and writes."""

    kinds = CUSTOM

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self.is_native = pydantic_bridge.is_model(annotation)

    def schema(self, book: Book) -> Schema:
        try:
            found = pydantic_bridge.schema(self.annotation, is_output=book.is_output)
            inner = found.get("$defs", {})
            if any(book.definitions.get(name, each) != each for name, each in inner.items()):
                prefix = book.free_name(next(iter(inner))) + "."
                found = pydantic_bridge.schema(self.annotation, is_output=book.is_output, prefix=prefix)
        except Exception as error:
            # Any exception of pydantic means that it cannot describe the type. Its error classes are not imported here.
            raise Unsupported(f"pydantic cannot describe it: {error}") from error
        book.definitions.update(found.pop("$defs", {}))
        return found

    def reading(self) -> Any:
        return self.annotation if self.is_native else stand_in(lambda value: pydantic_bridge.read(self.annotation, value))

    def checking(self) -> Any:
        return Any  # pydantic wrote it


class Choice(Compound):
    """A union. If msgspec cannot distinguish the members, they are tried: the best match first, then in the declared order."""

    def __init__(self, members: Sequence[Shape]) -> None:
        self.parts = members
        self.kinds = frozenset().union(*(member.kinds for member in members))
        self.is_native = self._is_unambiguous()

    def _is_unambiguous(self) -> bool:
        seen: set[str] = set()
        tags: set[tuple[str, Any]] = set()
        for member in self.parts:
            inner = unwrapped(member)
            tag = inner.tag if isinstance(inner, Record) else None
            if tag is not None and "object" in seen:
                if tag in tags or not tags or any(name != tag[0] for name, _ in tags):
                    return False
            elif member.kinds & seen:
                return False
            if tag is not None:
                tags.add(tag)
            seen |= member.kinds
        # msgspec 0.22 corrupts its memory over some unions whose members have constraints, such as
        # `Annotated[int, Meta(ge=0)] | tuple[int]` and `Annotated[str, Meta(pattern="a")] | list[int]`. Beside null they are safe.
        not_null = sum(member.kinds != {"null"} for member in self.parts)
        if not_null > 1 and any(unwrapped(member).is_constrained for member in self.parts):
            return False
        return "custom" not in seen or seen <= {"custom", "null"}

    def schema(self, book: Book) -> Schema:
        return {"anyOf": [member.schema(book) for member in self.parts]}

    def typed(self, types: Sequence[Any]) -> Any:
        # msgspec calls the hook for a stand-in in a union only if the other member is null.
        others = [each for each in types if not isinstance(each, StandIn)]
        if self.is_native and (len(others) == len(types) or all(each is type(None) for each in others)):
            union: Any = Union[tuple(types)]  # noqa: UP007 - the members are known only at run time
            if is_readable(union):
                return union
        return stand_in(lambda value: self._first_match(value, types))

    def _first_match(self, value: Any, types: Sequence[Any]) -> Any:
        candidates = list(zip(self.parts, types, strict=True))
        if isinstance(value, dict):
            candidates.sort(key=lambda candidate: _unknown_members(candidate[0], value))
        inside: list[list[Problem]] = []
        outside: list[str] = []
        for _, kind in candidates:
            try:
                return converted(value, kind)
            except ValidationError as error:
                problems = problems_in(error, value)
                if problems[0].path or problems[0].what.startswith("Object"):
                    inside.append(problems)
                outside.append("; ".join(map(str, problems)))
        if len(inside) == 1:  # only one member could have been meant
            raise Refused(inside[0])
        raise Refused([Problem("", f"Matches none of the {len(types)} alternatives{given(value)}: {' | '.join(outside)}")])

    def constrained(self, wanted: Constraints, *, is_native: bool) -> Shape:
        members: list[Shape] = []
        applied: set[str] = set()
        for member in self.parts:
            fitting: Constraints = {}
            for name, value in wanted.items():
                try:
                    member.constrained({name: value}, is_native=False)
                except Unsupported:
                    continue
                fitting[name] = value
            applied |= fitting.keys()
            members.append(member.constrained(fitting, is_native=False) if fitting else member)
        if applied != wanted.keys():
            raise Unsupported(
                f"the constraint {', '.join(sorted(wanted.keys() - applied))} does not apply to any member of the union"
            )
        return Choice(members)


def _unknown_members(member: Shape, value: dict[str, Any]) -> int:
    """Return how many members of an object a record does not have; the fewer, the better the match."""
    record = unwrapped(member)
    if not isinstance(record, Record):
        return 0
    known = {field.wire_name for field in record.fields} | ({record.tag[0]} if record.tag else set())
    return len(value.keys() - known)
