"""Convert docstrings for the site: Sphinx roles become Markdown, and comments above fields become their descriptions."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))

import api_pages

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`([^`]+)`")
_LITERAL = re.compile(r"^(.*?)::$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*# ?(.*)$")


def _complete_blocking(pkg: griffe.Module) -> None:
    """Give the blocking client and group the signatures and docstrings that they take from the async ones when imported."""
    if "_blocking" not in pkg.members:
        return
    _complete_methods(pkg["_blocking.client.Client"], pkg["_client.client.Client"])
    connect, source = pkg["_blocking.connect.connect"], pkg["_client.connect.connect"]
    connect.parameters = source.parameters
    text = source.docstring.value
    connect.docstring.value += "\n\n" + text[text.index("Args:") :].replace("\n\nAwaiting it raises:", "")
    group, source = pkg["_blocking.group.ServerGroup"], pkg["_host.group.ServerGroup"]
    _complete_methods(group, source)
    group["__init__"].parameters = source["__init__"].parameters
    text = source.docstring.value
    group.docstring.value += "\n\n" + text[text.index("Args:") :]


def _complete_methods(blocking: griffe.Class, source: griffe.Class) -> None:
    for name, member in list(blocking.members.items()):
        if isinstance(member, griffe.Attribute) and str(member.value).startswith("blocking("):
            original = source.members[name]
            method = griffe.Function(
                name, parameters=original.parameters, returns=original.returns, lineno=member.lineno, endlineno=member.endlineno
            )
            method.docstring = griffe.Docstring(original.docstring.value, parent=method)
            blocking.set_member(name, method)


class Readable(griffe.Extension):
    """Visit everything that was read, once."""

    def __init__(self) -> None:
        super().__init__()
        self._keyword_only: set[str] = set()

    def on_class_node(self, *, node: ast.ClassDef, agent: griffe.Visitor, **_: Any) -> None:
        """Collect the classes with ``kw_only=True``: griffe does not keep class arguments."""
        if any(each.arg == "kw_only" and ast.unparse(each.value) == "True" for each in node.keywords):
            self._keyword_only.add(f"{agent.current.path}.{node.name}")

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Change the docstrings of a package."""
        if pkg.name != "twopipes":
            return
        _complete_blocking(pkg)
        shown = _shown(pkg)
        for each in list(_everything_in(pkg)):
            _describe_by_comment(each)
            if isinstance(each, griffe.Class):
                self._give_a_signature(each)
            if each.docstring is not None:
                each.docstring.value = in_markdown(each.docstring.value, each, shown)

    def _give_a_signature(self, kind: griffe.Class) -> None:
        """Add the signature of a msgspec Struct, which has no ``__init__`` in the source."""
        if "__init__" in kind.members:
            return
        line = [kind, *kind.mro()]
        if not any("Struct" in str(base) for each in line for base in each.bases):
            return
        given, by_keyword = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)], []
        for each in reversed(line):
            is_by_keyword = each.path in self._keyword_only
            for field in each.members.values():
                if not _is_field(field):
                    continue
                how = griffe.ParameterKind.keyword_only if is_by_keyword else griffe.ParameterKind.positional_or_keyword
                parameter = griffe.Parameter(field.name, annotation=field.annotation, kind=how, default=_default_of(field))
                (by_keyword if is_by_keyword else given).append(parameter)
        function = griffe.Function("__init__", parameters=griffe.Parameters(*given, *by_keyword), lineno=kind.lineno)
        kind.set_member("__init__", function)


def _is_field(member: griffe.Object | griffe.Alias) -> bool:
    if member.is_alias or not member.is_attribute or "property" in member.labels or member.annotation is None:
        return False
    return not str(member.annotation).startswith("ClassVar")


def _default_of(field: griffe.Attribute) -> Any:
    """Return the default of a field; a factory is shown as dots."""
    if field.value is None:
        return None
    text = str(field.value)
    if not text.startswith(("field(", "msgspec.field(")):
        return field.value
    found = re.search(r"\bdefault=([^,)]+)", text)
    return found[1] if found else "..." if "default_factory" in text else None


def _shown(package: griffe.Module) -> dict[str, str]:
    """Return the names that have an entry on a page, by where they are defined; the entry is under the public name."""
    found = {}
    for identifier in api_pages.identifiers():
        try:
            target = package[identifier.removeprefix("twopipes.")]
            found.setdefault(target.canonical_path, identifier)
        except (KeyError, griffe.AliasResolutionError):
            continue
    return found


def _everything_in(thing: griffe.Object) -> Any:
    yield thing
    for member in thing.members.values():
        if not member.is_alias:
            yield from _everything_in(member)


def _describe_by_comment(thing: griffe.Object) -> None:
    """Describe a field or a constant without a docstring by the comment above it."""
    if not thing.is_attribute or thing.docstring is not None or thing.lineno is None:
        return
    lines, number = thing.lines_collection[thing.filepath], thing.lineno
    comment: list[str] = []
    while number is not None and number >= 2 and (found := _COMMENT.match(lines[number - 2])):
        comment.insert(0, found[1])
        number -= 1
    if comment:
        thing.docstring = griffe.Docstring("\n".join(comment), parent=thing, lineno=thing.lineno)


def in_markdown(text: str, thing: griffe.Object, shown: dict[str, str]) -> str:
    """Return the text with roles as links, or as code if there is no target."""

    def link(match: re.Match[str]) -> str:
        name = match[1].removeprefix("~").removeprefix(".")
        label = name.rpartition(".")[2] if match[1].startswith("~") else name
        target = _entry_of(name, thing, shown)
        return f"[`{label}`][{target}]" if target else f"`{label}`"

    text = _ROLE.sub(link, text)
    # A literal block of reStructuredText is one of Markdown, too, but for the colons.
    return _LITERAL.sub(lambda match: f"{match[1]}:" if match[1].strip() else "", text)


def _entry_of(name: str, thing: griffe.Object, shown: dict[str, str]) -> str | None:
    """Return the identifier of the entry of a name in a docstring."""
    head, _, member = name.partition(".")
    scope: Any = thing if thing.is_class else thing.parent if thing.parent is not None and thing.parent.is_class else None
    if scope is not None and scope.canonical_path in shown and name in scope.members and scope.members[name].docstring:
        return f"{shown[scope.canonical_path]}.{name}" if _is_listed(scope.name, name) else None
    try:
        path = name if name.startswith("twopipes.") else thing.resolve(head) + (f".{member}" if member else "")
    except griffe.NameResolutionError:
        return None
    public = {identifier: identifier for identifier in shown.values()}
    return shown.get(path) or public.get(path)


def _is_listed(kind: str, name: str) -> bool:
    return not name.startswith("_") and name not in api_pages.INTERNAL.get(kind, ())
