"""A tool or a prompt of a group: what its server reports, and the name that it has in the group."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from twopipes._host.model_formats import OpenAIApi, anthropic_tool, openai_tool
from twopipes._protocol.types import Prompt, Tool, ToolAnnotations


class GroupTool(Struct, frozen=True, kw_only=True):
    """A tool of a group.

    Attributes:
        name: Its name in the group: ``SERVER__TOOL``. ``group.call`` takes it.
        server: The name that you gave its server.
        tool: The tool as its server describes it, with its own name.
        fingerprint: A digest of what a person or a model knows about it: names, description, schemas, annotations.
        changed: Whether it differs from the version that was approved.
    """

    name: str
    server: str
    tool: Tool
    fingerprint: str
    changed: bool = False

    @property
    def description(self) -> str | None:
        """What it does, for the model."""
        return self.tool.description

    @property
    def title(self) -> str:
        """The name to show to people; its server chose it."""
        return self.tool.display_name

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return self.tool.input_schema

    @property
    def annotations(self) -> ToolAnnotations:
        """What its server claims about it, with the defaults of the protocol. This is not proof."""
        return self.tool.hints

    def to_anthropic(self) -> dict[str, Any]:
        """Return the entry of ``tools`` for Anthropic's Messages API."""
        return anthropic_tool(self.name, self.tool.description, self.tool.input_schema)

    def to_openai(self, api: OpenAIApi = "responses") -> dict[str, Any]:
        """Return the entry of ``tools`` for an API of OpenAI: ``responses``, or ``chat`` for Chat Completions.

        Raises:
            ValueError: The API is not known.
        """
        return openai_tool(self.name, self.tool.description, self.tool.input_schema, api)


class GroupPrompt(Struct, frozen=True, kw_only=True):
    """A prompt of a group.

    Attributes:
        name: Its name in the group: ``SERVER__PROMPT``. ``group.get_prompt`` takes it.
        server: The name that you gave its server.
        prompt: The prompt as its server describes it, with its own name.
    """

    name: str
    server: str
    prompt: Prompt


# The members that a person or a model decides by. Icons, _meta and the like may change at any time.
COMPARED = ("title", "description", "input_schema", "output_schema", "annotations")


def fingerprint_of(server: str, tool: Tool) -> str:
    """Return a SHA-256 of what matters about a tool. The order of members in JSON does not."""
    members = {name: getattr(tool, name) for name in COMPARED}
    return sha256(encode({"server": server, "name": tool.name, **members}, order="sorted")).hexdigest()
