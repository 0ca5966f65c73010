"""How much work a JSON Schema can make, found out before anybody does the work (JS-06).

A schema is small and what it asks for may not be: thirty definitions that each name the next one twice are a thousand million
visits, and a value that is nested deeply enough takes a native stack to its end. So the schema is read as a graph first. Its
edges either stay at a value (``allOf``, ``anyOf``, ``$ref``) or go one level into it (``properties``, ``items``). From that
follows how often, at the most, any part of a value is looked at, given how deep the value is.

Only references within the schema are followed. Everything else is refused, and never fetched (JS-04, JS-05).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from twopipes.errors import TwopipesError

__all__ = ["SchemaLimits", "SchemaRefused", "Workload"]

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLES: Final = ("not", "if", "then", "else")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
# Where definitions lie that nothing but a reference leads to.
_SHELVES: Final = ("$defs", "definitions")
# A value is an object or an array, so what goes down from it by both ways is never done for the same value.
_OBJECT: Final = "."
_ARRAY: Final = "["
# Plain values that are compared in the time of a visit.
_COMPARISONS: Final = 4
# Nodes and edges looked at. More than any schema within the limits needs, unless it was made to.
_MOST_STEPS: Final = 1_000_000
_DEAR_STEP: Final = 20

Node = Mapping[str, Any]


class SchemaLimits(Struct, frozen=True, kw_only=True):
    """What a schema, and a value that is checked by it, may cost."""

    # Levels of the schema as JSON. The library refuses more than 255; nobody writes more than a dozen.
    max_depth: int = 100
    # Objects, arrays and plain values in the schema.
    max_parts: int = 10_000
    # Regular expressions in the schema. Each may take 10 MiB when it is compiled.
    max_patterns: int = 256
    # Visits of subschemas to one value, references followed.
    max_width: int = 20_000
    # Levels of a value. Each takes some of the native stack.
    max_value_depth: int = 256
    # Visits of subschemas for one check. Four million take half a second at the worst.
    max_visits: int = 4_000_000
    # What is told of what is wrong with a value.
    max_problems: int = 10


class SchemaRefused(TwopipesError, ValueError):
    """A JSON Schema cannot be used: its dialect is unknown, it is no valid schema, or it costs too much.

    Attributes:
        why: What is wrong and what would help.
        place: Where in the schema, as a JSON pointer; empty for the whole.
    """

    def __init__(self, why: str, *, place: str = "") -> None:
        super().__init__(why, place)
        self.why = why
        self.place = place

    def __str__(self) -> str:
        return f"{self.why} (at {self.place})" if self.place else self.why


class _Edges(Struct):
    """Where the keywords of one subschema lead."""

    # To the same value. Twice for what unevaluatedProperties makes the library look at again.
    here: list[tuple[int, int]]
    # One level down: by label, to all members, and to those that have no label here; the latter two by kind of value.
    named: dict[str, list[int]]
    every: dict[str, list[int]]
    others: dict[str, list[int]]
    # What it costs by itself: an enum of a thousand is a thousand comparisons.
    weight: int


class Workload:
    """What checking values by one schema costs.

    Args:
        schema: The schema.
        limits: What is too much.

    Attributes:
        has_choices: Whether it has ``anyOf`` or ``oneOf``, of which a failure has as many reasons as there are branches.
        patterns: How many regular expressions it has.

    Raises:
        SchemaRefused: It refers to something outside of itself (JS-05), or is beyond the limits (JS-06).
    """

    def __init__(self, schema: Mapping[str, Any], limits: SchemaLimits) -> None:
        self._limits = limits
        self._root = schema
        self._nodes: dict[int, Node] = {}
        self._edges: dict[int, _Edges] = {}
        self._steps = 0
        self.has_choices = False
        self.patterns = 0
        _measure(schema, limits)
        self._anchors: dict[str, list[Node]] = {}
        self._explore()
        if self.patterns > limits.max_patterns:
            raise SchemaRefused(f"it has more than {limits.max_patterns} regular expressions")
        # How often a value is visited once a subschema is at it, and how many subschemas are nested meanwhile.
        self._widths, self._chains = self._stay()
        self._levels = self._descents()
        self._visits, self._is_bounded = self._grow()

    def visits(self, depth: int) -> int | None:
        """How often a part of a value that stands so many levels down is looked at, at the most; ``None`` for too often."""
        if depth < len(self._visits):
            return self._visits[depth]
        return self._visits[-1] if self._is_bounded else None

    def nesting(self, depth: int) -> int:
        """How many subschemas are nested in one another, at the most, for a value of so many levels."""
        levels = depth if self._levels is None else min(depth, self._levels)
        return (levels + 1) * max(self._chains.values())

    # The graph

    def _explore(self) -> None:
        """Reads every subschema that can be reached. References are followed last, when all anchors are known."""
        waiting: list[Node] = [self._root]
        references: list[tuple[Node, str, str]] = []
        while waiting or references:
            if not waiting:
                node, keyword, reference = references.pop()
                for target in self._targets(keyword, reference):
                    self._edges[id(node)].here.append((id(target), 1))
                    waiting.append(target)
                continue
            node = waiting.pop()
            if id(node) in self._nodes:
                continue
            self._nodes[id(node)] = node
            self._step()
            if node is not self._root and isinstance(node.get("$id"), str):
                raise SchemaRefused(f"the part with the $id {node['$id']!r} is a schema of its own; put it into $defs without $id")
            self._edges[id(node)], found = self._read(node)
            waiting += found
            references += [(node, key, node[key]) for key in _REFERENCES if isinstance(node.get(key), str)]
            for key in _ANCHORS:
                if isinstance(node.get(key), str):
                    self._anchors.setdefault(node[key], []).append(node)

    def _read(self, node: Node) -> tuple[_Edges, list[Node]]:
        again = 2 if "unevaluatedProperties" in node or "unevaluatedItems" in node else 1
        self.has_choices |= "anyOf" in node or "oneOf" in node
        self.patterns += isinstance(node.get("pattern"), str)
        here = [each for key in _LISTS for each in _schemas(node.get(key))]
        here += [each for key in _SINGLES for each in _schemas([node.get(key)])]
        here += [each for key in ("dependentSchemas", "dependencies") for each in _members(node.get(key)).values()]
        by_pattern = list(_members(node.get("patternProperties")).values())
        self.patterns += len(node["patternProperties"]) if isinstance(node.get("patternProperties"), Mapping) else 0
        every = {
            _OBJECT: [*by_pattern, *_schemas([node.get("propertyNames")])],
            _ARRAY: _schemas([node.get("contains")]),
        }
        others = {
            _OBJECT: _schemas([node.get(key) for key in ("additionalProperties", "unevaluatedProperties")]),
            _ARRAY: _schemas([node.get(key) for key in ("items", "additionalItems", "unevaluatedItems")]),
        }
        named = {f"{_OBJECT}:{name}": [each] for name, each in _members(node.get("properties")).items()}
        # In a list each has its place. Before 2020-12 such a list was called `items`.
        for key in ("prefixItems", "items"):
            for place, each in enumerate(_schemas(node.get(key))):
                named.setdefault(f"{_ARRAY}:{place}", []).append(each)
        down = [*every.values(), *others.values(), *named.values()]
        found = [*here, *(each for members in down for each in members)]
        found += [each for key in _SHELVES for each in _members(node.get(key)).values()]
        plain = sum(_size(node.get(key)) for key in ("enum", "const", "required", "dependentRequired", "dependencies"))
        return (
            _Edges(
                [(id(each), again) for each in here],
                {label: [id(each) for each in members] for label, members in named.items()},
                {kind: [id(each) for each in members] for kind, members in every.items()},
                {kind: [id(each) for each in members] for kind, members in others.items()},
                1 + plain // _COMPARISONS,
            ),
            found,
        )

    def _targets(self, keyword: str, reference: str) -> Iterator[Node]:
        own = self._root.get("$id")
        base, _, fragment = reference.partition("#")
        if base and base != str(own).partition("#")[0]:
            raise SchemaRefused(f"it refers to {reference!r}, which is not fetched; put it into $defs and refer to #/$defs/...")
        if "%" in fragment:
            from urllib.parse import unquote  # noqa: PLC0415 - hardly anybody writes so

            fragment = unquote(fragment)
        if keyword == "$recursiveRef" or not fragment:
            yield self._root
        elif fragment.startswith("/"):
            target = self._at(fragment, reference)
            if target is not None:
                yield target
        elif fragment in self._anchors:
            yield from self._anchors[fragment]
        else:
            raise SchemaRefused(f"it refers to {reference!r}, which is not there")  # JS-05

    def _at(self, pointer: str, reference: str) -> Node | None:
        """What a pointer leads to; ``None`` for ``true`` and ``false``, which lead nowhere."""
        found: Any = self._root
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, Sequence) and not isinstance(found, str) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                raise SchemaRefused(f"it refers to {reference!r}, which is not there")
            if isinstance(found, Mapping) and isinstance(found.get("$id"), str) and found is not self._root:
                raise SchemaRefused(f"{reference!r} leads through a part with an $id of its own; put it into $defs without $id")
        if isinstance(found, bool):
            return None
        if not isinstance(found, Mapping):
            raise SchemaRefused(f"it refers to {reference!r}, which is no schema")
        return found

    # What follows from it

    def _stay(self) -> tuple[dict[int, int], dict[int, int]]:
        """For each subschema: the visits to a value that stay at it, and the longest chain of them."""
        widths: dict[int, int] = {}
        chains: dict[int, int] = {}
        edges = {node: [target for target, _ in each.here] for node, each in self._edges.items()}
        order, circle = _leaves_first(edges)
        if circle is not None:
            # The library takes such a circle for a yes, whatever else is in it.
            raise SchemaRefused("a part of it refers to itself without going into the value, so nothing could ever decide it")
        for node in order:
            each = self._edges[node]
            widths[node] = each.weight + sum(times * widths[target] for target, times in each.here)
            chains[node] = 1 + max((chains[target] for target, _ in each.here), default=0)
            if widths[node] > self._limits.max_width or chains[node] > self._limits.max_depth:
                raise SchemaRefused(
                    "with its references followed it is too complex to be checked: "
                    f"more than {self._limits.max_width:,} visits to one value, or more than {self._limits.max_depth} nested"
                )
        return widths, chains

    def _descents(self) -> int | None:
        """How many levels of a value it looks at; ``None`` for as many as there are."""
        edges = {node: [*self._below(node), *(target for target, _ in each.here)] for node, each in self._edges.items()}
        order, circle = _leaves_first(edges)
        if circle is not None:
            return None
        levels: dict[int, int] = {}
        for node in order:
            down = max((1 + levels[target] for target in self._below(node)), default=0)
            levels[node] = max([down, *(levels[target] for target, _ in self._edges[node].here)])
        return levels[id(self._root)]

    def _below(self, node: int) -> Iterator[int]:
        each = self._edges[node]
        for members in (*each.every.values(), *each.others.values(), *each.named.values()):
            yield from members

    def _grow(self) -> tuple[list[int], bool]:
        """The visits to a part of a value by its level, as far as they are allowed and still grow, and whether that has an end."""
        entries = self._entries()
        root = id(self._root)
        now = {entry: self._widths[entry] for entry in entries}
        visits = [now[root]]
        for _ in range(self._limits.max_value_depth):
            then = {entry: max(now[entry], self._most(down, now)) for entry, down in entries.items()}
            if then == now:
                return visits, True
            now = then
            if now[root] > self._limits.max_visits:
                break
            visits.append(now[root])
        return visits, False

    def _most(self, down: dict[str, list[tuple[int, int]]], now: Mapping[int, int]) -> int:
        """The visits to the member that is visited most."""
        self._step(sum(map(len, down.values())) + 1)
        totals = {label: sum(times * now[target] for times, target in targets) for label, targets in down.items()}
        anywhere = {kind: totals.pop(kind) for kind in (_OBJECT, _ARRAY)}
        return max(*anywhere.values(), *(anywhere[label[0]] + total for label, total in totals.items()))

    def _entries(self) -> dict[int, dict[str, list[tuple[int, int]]]]:
        """Where a level of a value is entered, and from there: how often which subschema is entered on the next level.

        What is entered for all members stands under the kind of the value. A member with a label of its own has more on top of
        that, and less what goes for those without.
        """
        entries: dict[int, dict[str, list[tuple[int, int]]]] = {}
        waiting = [id(self._root)]
        while waiting:
            entry = waiting.pop()
            if entry in entries:
                continue
            down: dict[str, list[tuple[int, int]]] = {_OBJECT: [], _ARRAY: []}
            for node, times in self._at_once(entry).items():
                each = self._edges[node]
                for kind in (_OBJECT, _ARRAY):
                    down[kind] += [(times, target) for target in (*each.every[kind], *each.others[kind])]
                for label, members in each.named.items():
                    there = down.setdefault(label, [])
                    there += [(times, target) for target in members]
                    there += [(-times, target) for target in each.others[label[0]]]
                    self._step(len(members))
            entries[entry] = down
            waiting += [target for targets in down.values() for _, target in targets]
            self._step(sum(map(len, down.values())))
        return entries

    def _at_once(self, entry: int) -> dict[int, int]:
        """The subschemas that a value meets when it meets one of them, and how often."""
        reached = {entry: [target for target, _ in self._edges[entry].here]}
        waiting = list(reached[entry])
        while waiting:
            node = waiting.pop()
            if node not in reached:
                self._step(_DEAR_STEP)
                reached[node] = [target for target, _ in self._edges[node].here]
                waiting += reached[node]
        order, _ = _leaves_first(reached)
        times = dict.fromkeys(order, 0)
        times[entry] = 1
        for node in reversed(order):
            for target, again in self._edges[node].here:
                times[target] += again * times[node]
        return times

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > _MOST_STEPS:
            raise SchemaRefused("it is too complex to be checked: too many of its parts refer to too many others")


def _measure(schema: Any, limits: SchemaLimits) -> None:
    """Refuses what is too deep or too large as JSON, before anything recurses into it."""
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    parts = 0
    while waiting:
        part, depth = waiting.pop()
        parts += 1
        if depth > limits.max_depth or parts > limits.max_parts:
            raise SchemaRefused(f"it is nested deeper than {limits.max_depth} or has more than {limits.max_parts:,} parts")
        if isinstance(part, Mapping):
            waiting += [(each, depth + 1) for each in part.values()]
        elif isinstance(part, list | tuple):
            waiting += [(each, depth + 1) for each in part]


def _leaves_first(edges: Mapping[int, Sequence[int]]) -> tuple[list[int], int | None]:
    """The nodes so that each comes after those it leads to, and one that leads back to itself, if there is one."""
    order: list[int] = []
    state: dict[int, bool] = {}  # False while the node is on the way, True when it is done
    for start in edges:
        if start in state:
            continue
        state[start] = False
        way = [(start, iter(edges[start]))]
        while way:
            node, targets = way[-1]
            for target in targets:
                if target not in state:
                    state[target] = False
                    way.append((target, iter(edges[target])))
                    break
                if not state[target]:
                    return order, target
            else:
                state[node] = True
                order.append(node)
                way.pop()
    return order, None


def _schemas(found: Any) -> list[Node]:
    """The schemas in a list; ``true`` and ``false`` lead nowhere."""
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list | tuple) else []


def _members(found: Any) -> dict[str, Node]:
    return {name: each for name, each in found.items() if isinstance(each, Mapping)} if isinstance(found, Mapping) else {}


def _size(found: Any) -> int:
    """The parts of a plain value, which is compared part by part."""
    waiting, parts = [found], -1 if found is None else 0
    while waiting:
        part = waiting.pop()
        parts += 1
        if isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
    return parts
