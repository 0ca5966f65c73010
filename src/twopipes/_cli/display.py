"""Print what a server offers, and its results, for people."""

from __future__ import annotations

import json
import mimetypes
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import json as msgspec_json

from twopipes._cli.arguments import describe, properties_of, resolved
from twopipes._client.results import CallResult
from twopipes._protocol import types as protocol
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError

_HEADING = "bold"
_DIM = "dim"
# Types that Python's table lacks, or has under other names.
_EXTENSIONS = {
    "audio/wav": ".wav",
    "audio/mp3": ".mp3",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "image/webp": ".webp",
    "image/jpg": ".jpg",
}
_HINTS = {"read_only": "read-only", "destructive": "destructive", "idempotent": "idempotent", "open_world": "open world"}


class Saver:
    """Saves binary content as new files in a folder. Existing files are kept."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = Path(folder)
        self._name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "result"

    def save(self, data: bytes, mime_type: str | None) -> Path:
        """Write a new file and return its path."""
        plain = (mime_type or "").partition(";")[0].strip().lower()
        extension = _EXTENSIONS.get(plain) or mimetypes.guess_extension(plain) or ".bin"
        number = 1
        while True:
            path = self._folder / f"{self._name}-{number}{extension}"
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    file.write(data)
            except FileExistsError:
                if not self._folder.is_dir():
                    raise UsageError(f"--save needs a folder, but {self._folder} is not one") from None
                number += 1
            except OSError as error:
                raise UsageError(f"{path} cannot be written: {error.strerror}") from error
            else:
                return path


class ResultPrinter:
    """Prints lists and results."""

    def __init__(self, terminal: Terminal, saver: Saver | None = None) -> None:
        self.terminal = terminal
        self._saver = saver

    @classmethod
    def on(cls, stream: Any, saver: Saver | None = None) -> ResultPrinter:
        """Create a printer for a stream. Rows of a table are not wrapped in a file, so that they can be searched."""
        return cls(Terminal(stream, width=None if stream.isatty() else 2000), saver)

    def result(self, result: CallResult) -> None:
        """Print the result of a tool."""
        texts = [block.text for block in result.content if isinstance(block, protocol.TextContent)]
        # TL-13: servers repeat the structured value as text for older clients. Print only one of them.
        repeats = result.has_structured and len(texts) == 1 and _means(texts[0], result.structured)
        wraps = result.has_structured and _is_wrapped(result.structured, texts)
        for block in result.content:
            if not (repeats and isinstance(block, protocol.TextContent)):
                self.block(block)
        if result.has_structured and not wraps:
            self.json(result.structured)
        if not result.content and not result.has_structured:
            self._print_dim("(empty)")

    def contents(self, contents: Sequence[protocol.ResourceContents]) -> None:
        """Print the contents of a resource."""
        for each in contents:
            if len(contents) > 1 and self.terminal.is_terminal:
                self._print_dim(f"{each.uri}{f' ({each.mime_type})' if each.mime_type else ''}")
            self._resource(each)

    def messages(self, messages: Sequence[protocol.PromptMessage]) -> None:
        """Print the messages of a prompt."""
        for number, message in enumerate(messages):
            if number:
                self.terminal.say()
            self.terminal.say((f"{message.role}:", _HEADING))
            self.block(message.content)

    def block(self, block: protocol.ContentBlock) -> None:
        """Print one content block."""
        match block:
            case protocol.TextContent():
                self.text(block.text)
            case protocol.ImageContent() | protocol.AudioContent():
                self._bytes(block.type, block.data, block.mime_type)
            case protocol.ResourceLink():
                details = ", ".join(filter(None, [block.title or block.name, block.mime_type, block.description]))
                self._print_dim(f"[link] {block.uri} ({details})")
            case protocol.EmbeddedResource():
                self._print_dim(f"[resource] {block.resource.uri}")
                self._resource(block.resource)
            case _:
                self.json(block)

    def text(self, text: str) -> None:
        """Print a text: unchanged, but escaped at a terminal."""
        if not self.terminal.is_terminal:
            self.terminal.stream.write(text if text.endswith("\n") else text + "\n")
            return
        for line in text.removesuffix("\n").split("\n"):
            self.terminal.say(visible(line.removesuffix("\r")))

    def json(self, value: Any) -> None:
        """Print a value as indented JSON."""
        self.raw(json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace"))

    def raw(self, encoded: bytes) -> None:
        """Print encoded JSON, indented and otherwise unchanged."""
        text = msgspec_json.format(encoded, indent=2).decode("utf-8", "replace")
        if self.terminal.rich is None or not self.terminal.is_terminal:
            self.text(text)
            return
        for line in text.split("\n"):
            self.terminal.rich.json(visible(line))

    def _resource(self, contents: protocol.ResourceContents) -> None:
        if contents.text is not None:
            self.text(contents.text)
        else:
            self._bytes("blob", contents.blob or "", contents.mime_type)

    def _bytes(self, kind: str, data: str, mime_type: str | None) -> None:
        try:
            decoded = b64decode(data, validate=True)
        except ValueError:
            self._print_dim(f"[{kind}] {mime_type or 'unknown type'}, {len(data):,} characters of invalid base64")
            return
        summary = f"[{kind}] {mime_type or 'unknown type'}, {_size(len(decoded))}"
        if self._saver is not None:
            self._print_dim(f"{summary}, saved as {self._saver.save(decoded, mime_type)}")
        else:
            self._print_dim(f"{summary} (use --save FOLDER to save it)")

    def _print_dim(self, text: str) -> None:
        self.terminal.say((visible(text), _DIM))

    def tools(self, tools: Sequence[protocol.Tool]) -> None:
        """Print a table of tools."""
        rows = [[each.name, argument_summary(each.input_schema), _about(each, each.display_name)] for each in tools]
        self._table("Tools", ["tool", "arguments", "description"], rows)

    def resources(self, resources: Sequence[protocol.Resource]) -> None:
        """Print a table of resources."""
        rows = [[each.uri, each.mime_type or "", _size(each.size), _about(each, each.name)] for each in resources]
        self._table("Resources", ["resource", "type", "size", "description"], rows)

    def templates(self, templates: Sequence[protocol.ResourceTemplate]) -> None:
        """Print a table of resource templates."""
        rows = [[each.uri_template, each.mime_type or "", _about(each, each.name)] for each in templates]
        self._table("Resource templates", ["template", "type", "description"], rows)

    def prompts(self, prompts: Sequence[protocol.Prompt]) -> None:
        """Print a table of prompts."""
        rows = []
        for each in prompts:
            arguments = [argument.name if argument.required else f"[{argument.name}]" for argument in each.arguments or ()]
            rows.append([each.name, ", ".join(arguments), _about(each, "")])
        self._table("Prompts", ["prompt", "arguments", "description"], rows)

    def tool(self, tool: protocol.Tool) -> None:
        """Print the details of a tool."""
        labels = [label for name, label in _HINTS.items() if getattr(tool.annotations, f"{name}_hint", None)]
        self._title(tool.name, tool.display_name, tool.description, labels)
        required = tool.input_schema.get("required", [])
        rows = []
        for name, each in properties_of(tool.input_schema).items():
            need = "required" if name in required else _default(each).strip()
            own = resolved(each, tool.input_schema)
            note = own.get("description") if isinstance(own, Mapping) else None
            rows.append([name, describe(each, tool.input_schema), need, note if isinstance(note, str) else ""])
        if rows:
            self.terminal.table(["argument", "type", "", "description"], _cells(rows))
        if tool.output_schema is not None:
            self.terminal.say("returns ", visible(describe(tool.output_schema, tool.output_schema)))
        self.terminal.say()

    def prompt(self, prompt: protocol.Prompt) -> None:
        """Print the details of a prompt."""
        self._title(prompt.name, prompt.title or prompt.name, prompt.description, [])
        rows = [
            [each.name, "required" if each.required else "", each.description or each.title or ""]
            for each in prompt.arguments or ()
        ]
        if rows:
            self.terminal.table(["argument", "", "description"], _cells(rows))
        self.terminal.say()

    def _title(self, name: str, title: str, description: str | None, hints: Sequence[str]) -> None:
        more = f"  {title}" if title != name else ""
        self.terminal.say((visible(name), _HEADING), visible(more), (f"  ({', '.join(hints)})" if hints else "", _DIM))
        for line in (description or "").strip().split("\n"):
            self.terminal.say(visible(line))

    def _table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.terminal.say((f"{title} ({len(rows)})", _HEADING))
        used = [number for number in range(len(columns)) if number in {0, len(columns) - 1} or any(row[number] for row in rows)]
        self.terminal.table([columns[number] for number in used], _cells([[row[number] for number in used] for row in rows]))
        if self.terminal.rich is None:  # tables of rich end with a blank line
            self.terminal.say()


def bytes_of(contents: Sequence[protocol.ResourceContents]) -> bytes:
    """Return the contents of a resource as bytes."""
    return b"".join(
        each.text.encode("utf-8", "replace") if each.text is not None else protocol.ReadResourceResult([each]).data
        for each in contents
    )


def argument_summary(schema: Mapping[str, Any]) -> str:
    """Describe the arguments of a tool on one line: ``a: integer, [b: integer = 0]``."""
    required, shown = schema.get("required", []), []
    for name, each in properties_of(schema).items():
        text = f"{name}: {describe(each, schema)}"
        shown.append(text if name in required else f"[{text}{_default(each)}]")
    return ", ".join(shown)


def first_line(text: str) -> str:
    """Return the first paragraph of a text on one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())


def _about(item: protocol.Tool | protocol.Resource | protocol.ResourceTemplate | protocol.Prompt, name: str) -> str:
    return first_line(item.description or item.title or name)


def _default(schema: Any) -> str:
    default = schema.get("default") if isinstance(schema, Mapping) else None
    return "" if default is None else f" = {json.dumps(default, ensure_ascii=False)}"


def _cells(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[visible(" ".join(cell.split())) for cell in row] for row in rows]


def _means(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def _is_wrapped(value: Any, texts: Sequence[str]) -> bool:
    """Return whether a value only wraps the printed text in an object, as older revisions require (TL-11)."""
    if not isinstance(value, dict) or list(value) != ["result"]:
        return False
    inner = value["result"]
    return texts == [inner] if isinstance(inner, str) else len(texts) == 1 and _means(texts[0], inner)


def _size(count: int | None) -> str:
    if count is None or count < 1024:
        return "" if count is None else f"{count} byte{'s' if count != 1 else ''}"
    power = min((count.bit_length() - 1) // 10, 3)
    return f"{count / 1024**power:.1f} {['KiB', 'MiB', 'GiB'][power - 1]}"
