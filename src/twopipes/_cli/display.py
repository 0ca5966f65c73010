"""What a server offers and what it answered, for people: tables, text as it is, the rest described."""

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
from twopipes._protocol.types import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Prompt,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ResourceLink,
    ResourceTemplate,
    TextContent,
    Tool,
)
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError

__all__ = ["ResultPrinter", "Saver", "bytes_of", "first_line"]

_HEADING = "bold"
_DIM = "dim"
# Bytes in a kibibyte, and so on.
_STEP = 1024
# What Python's table has under other names, or not at all.
_ENDINGS = {
    "audio/wav": ".wav",
    "audio/mp3": ".mp3",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "image/webp": ".webp",
    "image/jpg": ".jpg",
}
# Columns of a table that nobody looks at in a terminal: rows are not broken, so that they can be searched.
_UNBROKEN = 2000


class Saver:
    """Puts pictures, sounds and other bytes into a folder. What is there already is left alone.

    Args:
        folder: Made when the first file comes.
        name: What the files are called, with a number behind.
    """

    def __init__(self, folder: str, name: str) -> None:
        self._folder = Path(folder)
        self._name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "result"

    def save(self, data: bytes, mime_type: str | None) -> Path:
        """Writes a new file and returns its path.

        Raises:
            UsageError: It cannot be written.
        """
        plain = (mime_type or "").partition(";")[0].strip().lower()
        ending = _ENDINGS.get(plain) or mimetypes.guess_extension(plain) or ".bin"
        number = 1
        while True:
            path = self._folder / f"{self._name}-{number}{ending}"
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    file.write(data)
            except FileExistsError:
                if not self._folder.is_dir():
                    raise UsageError(f"--save needs a folder, and {self._folder} is none") from None
                number += 1
            except OSError as error:
                raise UsageError(f"{path} cannot be written: {error.strerror}") from error
            else:
                return path


class ResultPrinter:
    """Shows it on stdout.

    Args:
        terminal: Where to.
        saver: Where pictures and the like go, if they are to be saved.
    """

    def __init__(self, terminal: Terminal, saver: Saver | None = None) -> None:
        self.terminal = terminal
        self._saver = saver

    @classmethod
    def on(cls, stream: Any, saver: Saver | None = None) -> ResultPrinter:
        """One that writes to a stream, in the width that suits who reads it."""
        return cls(Terminal(stream, width=None if stream.isatty() else _UNBROKEN), saver)

    # What was answered

    def result(self, result: CallResult) -> None:
        """What a tool gave."""
        told = [block.text for block in result.content if isinstance(block, TextContent)]
        # TL-13: servers repeat the value as a text, for clients that read no values. One of the two is enough.
        repeats = result.has_structured and len(told) == 1 and _means(told[0], result.structured)
        wraps = result.has_structured and _is_wrapped(result.structured, told)
        for block in result.content:
            if not (repeats and isinstance(block, TextContent)):
                self.block(block)
        if result.has_structured and not wraps:
            self.json(result.structured)
        if not result.content and not result.has_structured:
            self._aside("(nothing)")

    def contents(self, contents: Sequence[ResourceContents]) -> None:
        """What a resource holds."""
        for each in contents:
            if len(contents) > 1 and self.terminal.is_terminal:
                self._aside(f"{each.uri}{f' ({each.mime_type})' if each.mime_type else ''}")
            self._resource(each)

    def messages(self, messages: Sequence[PromptMessage]) -> None:
        """A prompt."""
        for number, message in enumerate(messages):
            if number:
                self.terminal.say()
            self.terminal.say((f"{message.role}:", _HEADING))
            self.block(message.content)

    def block(self, block: ContentBlock) -> None:
        """One piece of content."""
        match block:
            case TextContent():
                self.text(block.text)
            case ImageContent() | AudioContent():
                self._bytes(block.type, block.data, block.mime_type)
            case ResourceLink():
                details = ", ".join(filter(None, [block.title or block.name, block.mime_type, block.description]))
                self._aside(f"[link] {block.uri} ({details})")
            case EmbeddedResource():
                self._aside(f"[resource] {block.resource.uri}")
                self._resource(block.resource)
            case _:
                self.json(block)

    def text(self, text: str) -> None:
        """A text: as it is, and harmless where it meets a terminal."""
        if not self.terminal.is_terminal:
            self.terminal.stream.write(text if text.endswith("\n") else text + "\n")
            return
        for line in text.removesuffix("\n").split("\n"):
            self.terminal.say(visible(line.removesuffix("\r")))

    def json(self, value: Any) -> None:
        """A value as JSON, indented."""
        self.raw(json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace"))

    def raw(self, encoded: bytes) -> None:
        """JSON that is written already, indented, and otherwise not changed by a byte."""
        text = msgspec_json.format(encoded, indent=2).decode("utf-8", "replace")
        console = self.terminal.rich
        if console is None or not self.terminal.is_terminal:
            self.text(text)
            return
        from rich.highlighter import JSONHighlighter  # noqa: PLC0415 - the extra `cli`
        from rich.text import Text  # noqa: PLC0415 - likewise

        for line in text.split("\n"):
            console.print(JSONHighlighter()(Text(visible(line))), soft_wrap=True)

    def _resource(self, contents: ResourceContents) -> None:
        if contents.text is not None:
            self.text(contents.text)
        else:
            self._bytes("blob", contents.blob or "", contents.mime_type)

    def _bytes(self, kind: str, data: str, mime_type: str | None) -> None:
        try:
            decoded = b64decode(data, validate=True)
        except ValueError:
            self._aside(f"[{kind}] {mime_type or 'of no type'}, {len(data):,} characters that are no base64")
            return
        told = f"[{kind}] {mime_type or 'of no type'}, {_size(len(decoded))}"
        if self._saver is not None:
            self._aside(f"{told}, saved as {self._saver.save(decoded, mime_type)}")
        else:
            self._aside(f"{told} (--save FOLDER keeps it)")

    def _aside(self, text: str) -> None:
        self.terminal.say((visible(text), _DIM))

    # What is offered

    def tools(self, tools: Sequence[Tool]) -> None:
        """A table of tools."""
        rows = [
            [tool.name, arguments_in_short(tool.input_schema), first_line(tool.description or tool.display_name)] for tool in tools
        ]
        self._table("Tools", ["tool", "arguments", "description"], rows)

    def resources(self, resources: Sequence[Resource]) -> None:
        """A table of resources."""
        rows = [
            [
                each.uri,
                each.mime_type or "",
                "" if each.size is None else _size(each.size),
                first_line(each.description or each.title or each.name),
            ]
            for each in resources
        ]
        self._table("Resources", ["resource", "type", "size", "description"], rows)

    def templates(self, templates: Sequence[ResourceTemplate]) -> None:
        """A table of resource templates."""
        rows = [
            [each.uri_template, each.mime_type or "", first_line(each.description or each.title or each.name)] for each in templates
        ]
        self._table("Resource templates", ["template", "type", "description"], rows)

    def prompts(self, prompts: Sequence[Prompt]) -> None:
        """A table of prompts."""
        rows = [
            [
                each.name,
                ", ".join(argument.name if argument.required else f"[{argument.name}]" for argument in each.arguments or ()),
                first_line(each.description or each.title or ""),
            ]
            for each in prompts
        ]
        self._table("Prompts", ["prompt", "arguments", "description"], rows)

    def tool(self, tool: Tool) -> None:
        """One tool, with all that is known of it."""
        hints = tool.annotations
        told = {
            "only reads": hints and hints.read_only_hint,
            "may destroy": hints and hints.destructive_hint,
            "may be repeated": hints and hints.idempotent_hint,
            "reaches outside": hints and hints.open_world_hint,
        }
        self._title(tool.name, tool.display_name, tool.description, [word for word, is_so in told.items() if is_so])
        required = tool.input_schema.get("required", [])
        rows = [
            [name, describe(each, tool.input_schema), _need(name, each, required), _note(resolved(each, tool.input_schema))]
            for name, each in properties_of(tool.input_schema).items()
        ]
        if rows:
            self.terminal.table(["argument", "type", "", "description"], _cells(rows))
        if tool.output_schema is not None:
            self.terminal.say("gives ", visible(describe(tool.output_schema, tool.output_schema)))
        self.terminal.say()

    def prompt(self, prompt: Prompt) -> None:
        """One prompt, with all that is known of it."""
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
        if self.terminal.rich is None:  # whose tables have a blank line below
            self.terminal.say()


def bytes_of(contents: Sequence[ResourceContents]) -> bytes:
    """All that a resource holds, one after the other, as it is.

    Raises:
        RemoteProtocolError: A part of it is not base64, which is what the server should have sent (RS-02).
    """
    return b"".join(
        each.text.encode("utf-8", "replace") if each.text is not None else ReadResourceResult([each]).data for each in contents
    )


def arguments_in_short(schema: Mapping[str, Any]) -> str:
    """The arguments of a tool on one line: ``a: integer, [b: integer = 0]``."""
    required = schema.get("required", [])
    return ", ".join(_argument(name, each, schema, required) for name, each in properties_of(schema).items())


def _argument(name: str, schema: Any, root: Mapping[str, Any], required: Any) -> str:
    told = f"{name}: {describe(schema, root)}"
    if name in required:
        return told
    default = schema.get("default") if isinstance(schema, Mapping) else None
    return f"[{told}{'' if default is None else f' = {json.dumps(default, ensure_ascii=False)}'}]"


def first_line(text: str) -> str:
    """The first paragraph of a text, on one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())


def _need(name: str, schema: Any, required: Any) -> str:
    if name in required:
        return "required"
    default = schema.get("default") if isinstance(schema, Mapping) else None
    return "" if default is None else f"= {json.dumps(default, ensure_ascii=False)}"


def _note(schema: Any) -> str:
    note = schema.get("description") if isinstance(schema, Mapping) else None
    return note if isinstance(note, str) else ""


def _cells(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[visible(" ".join(cell.split())) for cell in row] for row in rows]


def _means(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def _is_wrapped(value: Any, told: Sequence[str]) -> bool:
    """Whether the value is a text that was shown, put into an object because a value had to be one (TL-11)."""
    if not isinstance(value, dict) or list(value) != ["result"]:
        return False
    inner = value["result"]
    return told == [inner if isinstance(inner, str) else None] or (
        len(told) == 1 and not isinstance(inner, str) and _means(told[0], inner)
    )


def _size(count: int) -> str:
    if count < _STEP:
        return f"{count} byte{'s' if count != 1 else ''}"
    power = min((count.bit_length() - 1) // 10, 3)
    return f"{count / _STEP**power:.1f} {['KiB', 'MiB', 'GiB'][power - 1]}"
