"""Adapt a value to a revision: remove members that it does not have, and replace content that it does not have.

The changes are computed once for each type and revision, from the tables. A value that needs no change is returned as the same
object.
"""

from __future__ import annotations

from operator import is_
from typing import Any, TypeVar, get_args

from msgspec import Struct, structs

from twopipes._protocol import types as t
from twopipes._protocol.downgrade import DOWNGRADES
from twopipes._protocol.revisions import ALWAYS, MEMBERS, TYPES
from twopipes.errors import LocalProtocolError

M = TypeVar("M", bound=t.Model)


class _Plan(Struct, frozen=True):
    """The changes for the values of one type."""

    downgrade: Any  # applied first; it may return a value of another type
    drops: tuple[tuple[str, Any], ...]  # attributes that the revision does not have, with their defaults
    inner: tuple[str, ...]  # attributes with nested values that may need changes


_UNPLANNED = _Plan(None, (), ())


class Adapter:
    """Adapts values to one revision."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self._plans: dict[type[Any], _Plan | None] = {}

    def fit(self, value: M) -> M:
        """Adapt a value to this revision; return the same object if nothing needs to change.

        Members that the revision does not have are removed; content that it does not have is replaced (CT-02).

        Raises:
            LocalProtocolError: The revision cannot express the value.
        """
        kind = type(value)
        try:
            plan = self._plans[kind]
        except KeyError:
            plan = self._plan(kind)
        if plan is None:
            return value
        if plan.downgrade is not None:
            value = plan.downgrade(value, self.revision)
            if type(value) is not kind:
                return self.fit(value)
        changes: dict[str, Any] | None = None
        for name, default in plan.drops:
            if getattr(value, name) is not default:
                changes = changes or {}
                changes[name] = default
        for name in plan.inner:
            old = getattr(value, name)
            if old is not None:
                new = self._fit_inside(old)
                if new is not old:
                    changes = changes or {}
                    changes[name] = new
        return value if changes is None else structs.replace(value, **changes)

    def _fit_inside(self, held: Any) -> Any:
        if type(held) is list or type(held) is tuple:
            fitted_list: list[Any] | None = None
            for index, each in enumerate(held):
                if self._plans.get(type(each), _UNPLANNED) is not None:
                    new = self.fit(each)
                    if new is not each:
                        fitted_list = list(held) if fitted_list is None else fitted_list
                        fitted_list[index] = new
            return held if fitted_list is None else fitted_list
        if type(held) is dict:
            fitted_map = {key: self.fit(each) for key, each in held.items()}
            return held if all(map(is_, fitted_map.values(), held.values())) else fitted_map
        return self.fit(held)

    def _plan(self, kind: type[Any]) -> _Plan | None:
        downgrade, span = DOWNGRADES.get(kind, (None, ALWAYS))
        apply = downgrade if span.has(self.revision) else None
        if apply is None and not TYPES.get(kind.__name__, ALWAYS).has(self.revision):
            apply = _reject
        spans = MEMBERS.get(kind.__name__, {})
        drops: list[tuple[str, Any]] = []
        inner: list[str] = []
        for field in structs.fields(kind) if issubclass(kind, Struct) else ():
            if not spans.get(field.encode_name, ALWAYS).has(self.revision):
                drops.append((field.name, field.default))
            elif any((self._plans[each] if each in self._plans else self._plan(each)) for each in _types_in(field.type)):
                inner.append(field.name)
        plan = _Plan(apply, tuple(drops), tuple(inner)) if apply or drops or inner else None
        self._plans[kind] = plan
        return plan


def _reject(value: Any, revision: str) -> Any:
    raise LocalProtocolError(f"revision {revision} has no {type(value).__name__}")


def _types_in(annotation: Any) -> set[type[Any]]:
    """Return the protocol types in an annotation, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, t.Model):
        # A union with TextContent may also contain blocks of unknown types, which the annotation does not name.
        return {annotation, t.UnknownContent} if annotation is t.TextContent else {annotation}
    return {each for inner in get_args(annotation) for each in _types_in(inner)}
