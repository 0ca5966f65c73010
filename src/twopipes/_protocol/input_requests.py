"""The questions that a server may ask a client: elicitation (a form or a URL), sampling and roots."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import convert, field

from twopipes._protocol.base import MetaModel, Model, Params, Result, Role, text_of
from twopipes._protocol.content import SamplingContent
from twopipes._protocol.features import Root, Tool

# Elicitation: the kinds of fields of a form (EL-02, EL-04). The member `type` of JSON Schema distinguishes them.


class EnumOption(Model, frozen=True):
    """One choice: its value and the title that is shown."""

    const: str
    title: str


class StringSchema(Model, frozen=True, tag="string"):
    """A string, or one choice out of several.

    Attributes:
        enum: The choices, if any.
        enum_names: Their titles, as in 2025-06-18.
        one_of: Choices with titles, as in 2025-11-25 and later.
        format: ``email``, ``uri``, ``date`` or ``date-time``.
    """

    title: str | None = None
    description: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    format: str | None = None
    enum: list[str] | None = None
    enum_names: list[str] | None = None
    one_of: list[EnumOption] | None = None
    default: str | None = None


class _Numeric(Model, frozen=True):
    title: str | None = None
    description: str | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    default: int | float | None = None


class NumberSchema(_Numeric, frozen=True, tag="number"):
    """A number."""


class IntegerSchema(_Numeric, frozen=True, tag="integer"):
    """An integer."""


class BooleanSchema(Model, frozen=True, tag="boolean"):
    """A boolean."""

    title: str | None = None
    description: str | None = None
    default: bool | None = None


class SelectItems(Model, frozen=True):
    """The choices of a :class:`MultiSelectSchema`: ``enum`` (with ``type``) or ``any_of`` with titles."""

    type: Literal["string"] | None = None
    enum: list[str] | None = None
    any_of: list[EnumOption] | None = None

    def __post_init__(self) -> None:
        if self.enum is None and self.any_of is None:
            raise ValueError("The items of a multiple choice require `enum` or `anyOf`")


class MultiSelectSchema(Model, frozen=True, tag="array"):
    """Several choices, from 2025-11-25; in 2025-06-18 there is one boolean field for each choice (EL-03)."""

    items: SelectItems
    title: str | None = None
    description: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    default: list[str] | None = None


FieldSchema = StringSchema | NumberSchema | IntegerSchema | BooleanSchema | MultiSelectSchema
"""Every kind of field that a form can have."""


class ElicitSchema(Model, frozen=True, tag="object"):
    """A form, without nested objects (EL-01)."""

    properties: dict[str, FieldSchema]
    required: list[str] | None = None
    dialect: str | None = field(default=None, name="$schema")


class ElicitParams(Params, frozen=True):
    """A question to the user: a form to fill in, or a URL to visit.

    Attributes:
        message: The text for the user.
        mode: ``form`` or ``url``; absent means form (EL-07).
        requested_schema: The form as JSON Schema; :attr:`form` returns it as typed objects.
        url: The URL to visit, in url mode.
        elicitation_id: The id of the question in url mode; only in 2025-11-25, where it is required (EL-10).
    """

    message: str
    mode: Literal["form", "url"] | None = None
    requested_schema: dict[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None

    @property
    def form(self) -> ElicitSchema | None:
        """The form as typed objects, or ``None`` in url mode.

        Raises:
            msgspec.ValidationError: The schema has a kind of field that forms do not have (EL-02).
        """
        return None if self.requested_schema is None else convert(self.requested_schema, ElicitSchema)


ElicitValue = str | int | float | bool | list[str] | None
"""The answer to one field of a form. Null counts as no answer, and is never written."""


class ElicitResult(Result, frozen=True):
    """What the user did: ``accept`` (with the content of the form), ``decline`` or ``cancel`` (EL-06)."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, ElicitValue] | None = None


class _Spoken:
    """What the two types with sampling content share."""

    __slots__ = ()
    content: Any

    @property
    def blocks(self) -> list[SamplingContent]:
        """The content as a list, even if it is a single block."""
        return self.content if isinstance(self.content, list) else [self.content]

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return text_of(self.blocks)


class SamplingMessage(MetaModel, _Spoken, frozen=True):
    """One turn of a conversation with the model: one block, or several from 2025-11-25 (SA-03)."""

    role: Role
    content: SamplingContent | list[SamplingContent]


class ModelHint(Model, frozen=True):
    """A part of a model's name; the first hint that matches a model is used."""

    name: str | None = None


class ModelPreferences(Model, frozen=True):
    """Which model a server prefers; each priority is between 0 and 1."""

    hints: list[ModelHint] | None = None
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


class ToolChoice(Model, frozen=True):
    """Whether the model may (``auto``), must (``required``) or must not (``none``) use tools (SA-07)."""

    mode: Literal["auto", "required", "none"] | None = None


class CreateMessageParams(Params, frozen=True):
    """Params to let the client's model continue a conversation."""

    messages: list[SamplingMessage]
    max_tokens: int
    model_preferences: ModelPreferences | None = None
    system_prompt: str | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None


class CreateMessageResult(Result, _Spoken, frozen=True):
    """The message of the client's model.

    Attributes:
        role: Usually the assistant.
        content: One block, or several from 2025-11-25 (SA-03).
        model: The name of the model.
        stop_reason: ``endTurn``, ``stopSequence``, ``maxTokens``, ``toolUse`` or another reason (SA-02).
    """

    role: Role
    content: SamplingContent | list[SamplingContent]
    model: str
    stop_reason: str | None = None


class ListRootsResult(Result, frozen=True):
    """The folders that a server may access."""

    roots: list[Root]


class EmptyParams(Params, frozen=True):
    """Params without members."""


# Questions in an InputRequiredResult, from 2026-07-28: a method and its params, without id and jsonrpc (MR-03).


class ElicitRequest(Model, frozen=True, tag_field="method", tag="elicitation/create"):
    """A question to the user."""

    params: ElicitParams


class CreateMessageRequest(Model, frozen=True, tag_field="method", tag="sampling/createMessage"):
    """A question to the client's model."""

    params: CreateMessageParams


class ListRootsRequest(Model, frozen=True, tag_field="method", tag="roots/list"):
    """A question for the roots."""

    params: EmptyParams | None = None


InputRequest = ElicitRequest | CreateMessageRequest | ListRootsRequest
"""A question in an InputRequiredResult."""
