"""The server that the official conformance suite judges: over HTTP with ``server.py PORT``, over stdio with ``server.py``.

The names, texts and schemas are those that the scenarios of the suite expect.
"""

import asyncio
import base64
import json
import sys
from typing import Annotated, Any

from msgspec import Meta

from twopipes import Audio, Context, Image, Server, ToolError
from twopipes.types import (
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceContents,
    TextContent,
)

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SILENCE = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=")

server = Server("twopipes-conformance", version="1.0", ttl_ms=1000, cache_scope="public")


# Tools that return content


@server.tool
async def test_simple_text() -> TextContent:
    """Return a text."""
    return TextContent("This is a simple text response for testing.")


@server.tool
async def test_image_content() -> Image:
    """Return an image."""
    return Image(PIXEL)


@server.tool
async def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(SILENCE)


@server.tool
async def test_embedded_resource() -> EmbeddedResource:
    """Return a resource."""
    text = "This is an embedded resource content."
    return EmbeddedResource(ResourceContents("test://embedded-resource", text=text, mime_type="text/plain"))


@server.tool
async def test_multiple_content_types() -> list[Any]:
    """Return a text, an image and a resource."""
    data = json.dumps({"test": "data", "value": 123})
    resource = ResourceContents("test://mixed-content-resource", text=data, mime_type="application/json")
    return ["Multiple content types test:", Image(PIXEL), EmbeddedResource(resource)]


@server.tool
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


JSON_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool(input_schema=JSON_SCHEMA)
async def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Take arguments that a schema with every kind of keyword describes."""
    return f"JSON Schema 2020-12 tool called with: {json.dumps(arguments)}"


@server.tool
async def header_parameters(
    region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})],
    priority: Annotated[int, Meta(extra_json_schema={"x-mcp-header": "Priority"})] = 0,
) -> str:
    """Take parameters that are repeated in headers."""
    return f"region {region}, priority {priority}"


# Tools that send notifications


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Send three log messages."""
    await ctx.log("info", "Tool execution started")
    await ctx.log("info", "Tool processing data")
    await ctx.log("info", "Tool execution completed")
    return "Tool with logging executed successfully"


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Send a log message, if the request asks for it."""
    await ctx.log("info", "Diagnostic trace logging activated")
    return "Logging evaluated"


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)  # progress is reported at most so often
    return str(ctx.meta.get("progressToken"))


# Tools that ask in any revision


@server.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model.

    Args:
        prompt: The prompt to send to the LLM
    """
    answer = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {_text_of(answer.content)}"


@server.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user.

    Args:
        message: The message to show the user
    """
    return await _ask(ctx, message, {"response": {"type": "string", "description": "User's response"}}, required=["response"])


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user with a form that has defaults."""
    fields = {
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {
            "type": "string",
            "description": "User status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "description": "Verification status", "default": True},
    }
    return await _ask(ctx, "Please review and update the form fields with defaults", fields)


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the user with a form that has every kind of enumeration."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{title} Option"} for n, title in enumerate(("First", "Second", "Third"), 1)]
    fields: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"anyOf": titled}},
    }
    return await _ask(ctx, "Please select options from the enum fields", fields)


async def _ask(
    ctx: Context, message: str, fields: dict[str, Any], required: list[str] | None = None, key: str | None = None
) -> str:
    form = {"type": "object", "properties": fields, "required": required or []}
    answer = await ctx.elicit(message, form, key=key)
    return f"User response: action={answer.action}, content={json.dumps(answer.content)}"


def _text_of(content: Any) -> str:
    return content.text if isinstance(content, TextContent) else "no text"


# Tools that ask in the result of a call

NAME = {"name": {"type": "string"}}
OK = {"ok": {"type": "boolean"}}


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Need sampling."""
    return _text_of((await ctx.sample("Hello", max_tokens=10)).content)


@server.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Ask the user after some progress."""
    await ctx.progress(50, 100)
    return await _ask(ctx, "Please confirm", OK, ["ok"])


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask the user for a name."""
    return await _ask(ctx, "What is your name?", NAME, ["name"], key="user_name")


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model."""
    answer = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return f"Sampling result: {_text_of(answer.content)}"


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the roots."""
    return f"Found {len(await ctx.list_roots(key='client_roots'))} root(s)"


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask the user; the answer comes back with the state."""
    return f"state-ok: {await _ask(ctx, 'Please confirm', OK, ['ok'], key='confirm')}"


@server.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask the user; a state that was changed is refused."""
    return f"integrity-ok: {await _ask(ctx, 'Please confirm', OK, ['ok'], key='confirm')}"


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask three things at once."""
    name, greeting, roots = await asyncio.gather(
        _ask(ctx, "What is your name?", NAME, ["name"], key="user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.list_roots(key="client_roots"),
    )
    return f"Name: {name}; Greeting: {_text_of(greeting.content)}; Roots: {len(roots)}"


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask one thing after the other."""
    name = await _ask(ctx, "Step 1: What is your name?", NAME, ["name"], key="step1")
    color = await _ask(ctx, "Step 2: What is your favorite color?", {"color": {"type": "string"}}, ["color"], key="step2")
    return f"Multi-round complete: {name}, {color}"


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask what the client is able to answer."""
    questions: list[Any] = []
    if ctx.client.capabilities.allows("elicitation", "form"):
        questions.append(_ask(ctx, "Elicitation input", {"value": {"type": "string"}}, ["value"], key="elicit_input"))
    if ctx.client.capabilities.allows("sampling"):
        questions.append(ctx.sample("Sample request", max_tokens=50, key="sample_input"))
    return f"capabilities-ok: {len(await asyncio.gather(*questions))}"


# Tools that change the lists


@server.tool
async def test_trigger_tool_change() -> str:
    """Add a tool, or remove it again."""

    async def added() -> str:
        """Do nothing."""
        return "nothing"

    try:
        server.remove_tool("added")
    except Exception:
        server.add_tool(added)
    return "Mutation triggered"


@server.tool
async def test_trigger_prompt_change() -> str:
    """Add a prompt, or remove it again."""

    async def added() -> str:
        """Say nothing."""
        return "nothing"

    try:
        server.remove_prompt("added")
    except Exception:
        server.add_prompt(added)
    return "Mutation triggered"


# Resources


@server.resource("test://static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """An image."""
    return PIXEL


@server.resource("test://template/{id}/data", mime_type="application/json")
async def template(id: str) -> str:  # noqa: A002 - the name in the template
    """Data with an id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.resource("test://watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A text to subscribe to."""
    return "Watched resource content"


# Prompts


@server.prompt
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments.

    Args:
        arg1: First test argument
        arg2: Second test argument
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion("test_prompt_with_arguments", "arg1")
async def complete_arg1(typed: str) -> list[str]:
    return [word for word in ("paris", "park", "party") if word.startswith(typed)]


@server.prompt(name="test_prompt_with_embedded_resource")
async def prompt_with_embedded_resource(resourceUri: str) -> list[PromptMessage]:  # noqa: N803 - the name on the wire
    """A prompt with a resource.

    Args:
        resourceUri: URI of the resource to embed
    """
    resource = ResourceContents(resourceUri, text="Embedded resource content for testing.", mime_type="text/plain")
    texts = TextContent("Please process the embedded resource above.")
    return [PromptMessage("user", EmbeddedResource(resource)), PromptMessage("user", texts)]


@server.prompt
async def test_prompt_with_image() -> list[PromptMessage]:
    """A prompt with an image."""
    image = ImageContent(base64.b64encode(PIXEL).decode(), "image/png")
    return [PromptMessage("user", image), PromptMessage("user", TextContent("Please analyze the image above."))]


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks the user."""
    context = {"context": {"type": "string"}}
    return await _ask(ctx, "What context should the prompt use?", context, ["context"], key="user_context")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(http=f"127.0.0.1:{sys.argv[1]}")
    else:
        server.run()
