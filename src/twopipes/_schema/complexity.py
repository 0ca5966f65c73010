"""Compute the maximum cost of a check against a JSON Schema, before the check is run (JS-06).

A small schema can be expensive: thirty definitions that each refer to the next one twice cause a billion visits, and a deeply
nested value overflows the native stack. So the schema is read as a graph first. Its edges either stay at a value (``allOf``,
``anyOf``, ``$ref``) or go one level into it (``properties``, ``items``). The graph shows how often a part of a value is visited at
most, given its depth.

Only references within the schema are followed. All others are rejected and never fetched (JS-04, JS-05).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final
from urllib.parse import unquote

from msgspec import Struct

from twopipes.errors import TwopipesError

_SAME_VALUE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
# Definitions, which are reached only by references.
_DEFINITIONS: Final = ("$defs", "definitions")
# A value is either an object or an array, so only one kind of edge applies to it.
_OBJECT: Final = "."
_ARRAY: Final = "["
# Plain values that can be compared in the time of one visit.
_COMPARISONS: Final = 4
# Nodes and edges to process. Only a malicious schema within the limits needs more.
_MAX_STEPS: Final = 1_000_000
_EXPENSIVE_STEP: Final = 20

Node = Mapping[str, Any]


class SchemaLimits(Struct, frozen=True, kw_only=True):
    """Limits on the cost of a schema and of a check."""

    # Levels of the schema as JSON. The library rejects more than 255; real schemas have about ten.
    max_depth: int = 100
    # Objects, arrays and plain values in the schema.
    max_parts: int = 10_000
    # Regular expressions in the schema. Each may take 10 MiB when it is compiled.
    max_patterns: int = 256
    # Visits of subschemas to one value, references followed.
    max_width: int = 20_000
    # Levels of a value. Each takes some of the native stack.
    max_value_depth: int = 256
    # Visits of subschemas for one check. Four million take at most half a second.
    max_visits: int = 4_000_000
    # Problems that are reported for one value.
    max_problems: int = 10


class SchemaRefused(TwopipesError, ValueError):
    """A JSON Schema cannot be used: its dialect is unknown, it is invalid, or it is too expensive."""

    def __init__(self, why: str, *, place: str = "") -> None:
        super().__init__(why, place)
        self.why = why
        self.place = place  # in the schema, as a JSON pointer; empty for the whole

    def __str__(self) -> str:
        return f"{self.why} (at {self.place})" if self.place else self.why


class _Edges(Struct):
    """The edges from one subschema."""

    # To the same value, with the number of visits: two if unevaluatedProperties makes the library visit it again.
    here: list[tuple[int, int]]
    # One level down: to one member by label, to all members, and to the members without a label; the last two by kind of value.
    named: dict[str, list[int]]
    every: dict[str, list[int]]
    others: dict[str, list[int]]
    # The cost of the subschema itself: an enum of a thousand values takes a thousand comparisons.
    weight: int


class Workload:
    """The maximum cost of checks against one schema, which has no external reference (JS-05) and is within the limits (JS-06)."""

    def __init__(self, schema: Mapping[str, Any], limits: SchemaLimits) -> None:
        self._limits = limits
        self._root = schema
        self._edges: dict[int, _Edges] = {}
        self._steps = 0
        self.has_choices = False  # anyOf or oneOf, which can fail for one reason per branch
        self.patterns = 0  # the number of regular expressions
        for parts, level in enumerate(_walk(schema), start=1):
            if level > limits.max_depth or parts > limits.max_parts:
                raise SchemaRefused(f"it is nested deeper than {limits.max_depth} or has more than {limits.max_parts:,} parts")
        self._anchors: dict[str, list[Node]] = {}
        self._explore()
        if self.patterns > limits.max_patterns:
            raise SchemaRefused(f"it has more than {limits.max_patterns} regular expressions")
        # For each subschema: how many visits one value gets, and how deeply subschemas are nested at it.
        self._widths, self._chains = self._stay()
        self._levels = self._descents()
        self._visits, self._is_bounded = self._grow()

    def visits(self, depth: int) -> float:
        """Return how often a part at this depth of a value is visited at most; infinity if that exceeds the limits."""
        if depth < len(self._visits):
            return self._visits[depth]
        return self._visits[-1] if self._is_bounded else inf

    def nesting(self, depth: int) -> int:
        """Return how deeply subschemas are nested at most for a value of this depth."""
        levels = depth if self._levels is None else min(depth, self._levels)
        return (levels + 1) * max(self._chains.values())

    # Graph

    def _explore(self) -> None:
        """Read every reachable subschema. References are followed last, when all anchors are known."""
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
            if id(node) in self._edges:
                continue
            self._step()
            if node is not self._root and isinstance(node.get("$id"), str):
                raise SchemaRefused(f"the part with $id {node['$id']!r} is a separate schema; move it to $defs and remove its $id")
            self._edges[id(node)], found = self._read(node)
            waiting += found
            references += [(node, key, node[key]) for key in _REFERENCES if isinstance(node.get(key), str)]
            for key in _ANCHORS:
                if isinstance(node.get(key), str):
                    self._anchors.setdefault(node[key], []).append(node)

    def _read(self, node: Node) -> tuple[_Edges, list[Node]]:
        """Return the edges of a subschema, and all its parts."""
        again = 2 if "unevaluatedProperties" in node or "unevaluatedItems" in node else 1
        self.has_choices |= "anyOf" in node or "oneOf" in node
        by_pattern = node.get("patternProperties")
        self.patterns += isinstance(node.get("pattern"), str) + (len(by_pattern) if isinstance(by_pattern, Mapping) else 0)
        here = [*_schemas(node, *_SAME_VALUE), *_values(node, "dependentSchemas", "dependencies")]
        every = {
            _OBJECT: [*_values(node, "patternProperties"), *_schemas(node, "propertyNames")],
            _ARRAY: _schemas(node, "contains"),
        }
        others = {
            _OBJECT: _schemas(node, "additionalProperties", "unevaluatedProperties"),
            _ARRAY: _schemas(node, "additionalItems", "unevaluatedItems"),
        }
        properties = node.get("properties")
        names = properties if isinstance(properties, Mapping) else {}
        named = {f"{_OBJECT}:{name}": [each] for name, each in names.items() if isinstance(each, Mapping)}
        # Each item of a list has its position. Before 2020-12 such a list was called `items`.
        for key in ("prefixItems", "items"):
            if isinstance(node.get(key), Mapping):
                others[_ARRAY].append(node[key])
                continue
            for place, each in enumerate(_schemas(node, key)):
                named.setdefault(f"{_ARRAY}:{place}", []).append(each)
        found = [*here, *_values(node, *_DEFINITIONS)]
        found += [each for edges in (every, others, named) for members in edges.values() for each in members]
        compared = [node.get(key) for key in ("enum", "const", "required", "dependentRequired", "dependencies")]
        plain = sum(1 for value in compared if value is not None for _ in _walk(value))
        to_every, to_others, to_named = (
            {label: [id(each) for each in members] for label, members in edges.items()} for edges in (every, others, named)
        )
        return _Edges([(id(each), again) for each in here], to_named, to_every, to_others, 1 + plain // _COMPARISONS), found

    def _targets(self, keyword: str, reference: str) -> Iterator[Node]:
        own = self._root.get("$id")
        base, _, fragment = reference.partition("#")
        if base and base != str(own).partition("#")[0]:
            raise SchemaRefused(f"it refers to {reference!r}, which is not fetched; copy it to $defs and refer to #/$defs/...")
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
            raise SchemaRefused(f"it refers to {reference!r}, which does not exist")  # JS-05

    def _at(self, pointer: str, reference: str) -> Node | None:
        """Return the subschema at a pointer; ``None`` for ``true`` and ``false``, which have no edges."""
        found: Any = self._root
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, Sequence) and not isinstance(found, str) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                raise SchemaRefused(f"it refers to {reference!r}, which does not exist")
            if isinstance(found, Mapping) and isinstance(found.get("$id"), str) and found is not self._root:
                raise SchemaRefused(
                    f"{reference!r} leads through a part with its own $id; move that part to $defs and remove its $id"
                )
        if isinstance(found, bool):
            return None
        if not isinstance(found, Mapping):
            raise SchemaRefused(f"it refers to {reference!r}, which is not a schema")
        return found

    # Costs

    def _stay(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return for each subschema the number of visits that stay at one value, and the longest chain of them."""
        widths: dict[int, int] = {}
        chains: dict[int, int] = {}
        edges = {node: [target for target, _ in each.here] for node, each in self._edges.items()}
        order, cycle = _topological_order(edges)
        if cycle is not None:
            # The library treats such a cycle as valid.
            raise SchemaRefused("a part of it refers to itself at the same value, so a check would never end")
        for node in order:
            each = self._edges[node]
            widths[node] = each.weight + sum(times * widths[target] for target, times in each.here)
            chains[node] = 1 + max((chains[target] for target, _ in each.here), default=0)
            if widths[node] > self._limits.max_width or chains[node] > self._limits.max_depth:
                raise SchemaRefused(
                    "with its references resolved it is too complex: "
                    f"more than {self._limits.max_width:,} visits to one value, or more than {self._limits.max_depth} nested"
                )
        return widths, chains

    def _descents(self) -> int | None:
        """Return how many levels of a value are visited; ``None`` for all of them."""
        edges = {node: [*self._below(node), *(target for target, _ in each.here)] for node, each in self._edges.items()}
        order, cycle = _topological_order(edges)
        if cycle is not None:
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
        """Return the visits by depth, up to the limit or until they stop growing, and whether they stop growing."""
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
        """Return the visits to the member that is visited most."""
        self._step(sum(map(len, down.values())) + 1)
        totals = {label: sum(times * now[target] for times, target in targets) for label, targets in down.items()}
        anywhere = {kind: totals.pop(kind) for kind in (_OBJECT, _ARRAY)}
        return max(*anywhere.values(), *(anywhere[label[0]] + total for label, total in totals.items()))

    def _entries(self) -> dict[int, dict[str, list[tuple[int, int]]]]:
        """Return the subschemas at which a level of a value is entered, with the entries that each causes on the next level.

        Entries for all members are stored under the kind of the value. For a member with its own label, the difference is stored.
        """
        entries: dict[int, dict[str, list[tuple[int, int]]]] = {}
        waiting = [id(self._root)]
        while waiting:
            entry = waiting.pop()
            if entry in entries:
                continue
            down: dict[str, list[tuple[int, int]]] = {_OBJECT: [], _ARRAY: []}
            for node, times in self._applied_with(entry).items():
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

    def _applied_with(self, entry: int) -> dict[int, int]:
        """Return all subschemas that are applied to a value together with this one, and how often."""
        reached = {entry: [target for target, _ in self._edges[entry].here]}
        waiting = list(reached[entry])
        while waiting:
            node = waiting.pop()
            if node not in reached:
                self._step(_EXPENSIVE_STEP)
                reached[node] = [target for target, _ in self._edges[node].here]
                waiting += reached[node]
        order, _ = _topological_order(reached)
        times = dict.fromkeys(order, 0)
        times[entry] = 1
        for node in reversed(order):
            for target, again in self._edges[node].here:
                times[target] += again * times[node]
        return times

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > _MAX_STEPS:
            raise SchemaRefused("it is too complex: too many of its parts refer to too many others")


def _walk(value: Any) -> Iterator[int]:
    """Yield the level of each part of a JSON value, without recursion."""
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        part, level = waiting.pop()
        yield level
        inside = part.values() if isinstance(part, Mapping) else part if isinstance(part, list | tuple) else ()
        waiting += [(each, level + 1) for each in inside]


def _topological_order(edges: Mapping[int, Sequence[int]]) -> tuple[list[int], int | None]:
    """Return the nodes in an order in which each comes after its targets, and one node of a cycle, if there is one."""
    order: list[int] = []
    state: dict[int, bool] = {}  # False while the node is on the path, True when it is done
    for start in edges:
        if start in state:
            continue
        state[start] = False
        path = [(start, iter(edges[start]))]
        while path:
            node, targets = path[-1]
            for target in targets:
                if target not in state:
                    state[target] = False
                    path.append((target, iter(edges[target])))
                    break
                if not state[target]:
                    return order, target
            else:
                state[node] = True
                order.append(node)
                path.pop()
    return order, None


def _schemas(node: Node, *keywords: str) -> list[Node]:
    """Return the schemas of keywords, alone or in lists, without ``true`` and ``false``, which have no edges."""
    values = [node[key] for key in keywords if key in node]
    found = [each for value in values for each in (value if isinstance(value, list | tuple) else [value])]
    return [each for each in found if isinstance(each, Mapping)]


def _values(node: Node, *keywords: str) -> list[Node]:
    """Return the schemas of keywords that map names to schemas."""
    maps = [node[key] for key in keywords if isinstance(node.get(key), Mapping)]
    return [each for found in maps for each in found.values() if isinstance(each, Mapping)]
