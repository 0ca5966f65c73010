"""Results of calls as model APIs take them. The official SDKs check the same in tests/interop/test_model_apis.py."""

import json

import pytest

from twopipes import CallResult, McpError
from twopipes._host.model_results import anthropic_result, openai_result
from twopipes._process.exit_status import ExitStatus
from twopipes.errors import HttpError, ServerExited, StartFailed, TwopipesError
from twopipes.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    UnknownContent,
    Validation,
)

PNG = ImageContent(data="aW1n", mime_type="image/png")


def result(*content, **members):
    return CallResult(CallToolResult(content=list(content), **members), Validation(None))


def blocks(*content, **members):
    return anthropic_result("toolu_1", result(*content, **members))["content"]


def parts(*content, **members):
    return openai_result("call_1", result(*content, **members))["output"]


def test_text():
    done = result(TextContent(text="one"), TextContent(text="two"))
    assert anthropic_result("toolu_1", done) == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
    }
    assert openai_result("call_1", done) == {"type": "function_call_output", "call_id": "call_1", "output": "one\n\ntwo"}
    assert openai_result("call_1", done, "chat") == {"role": "tool", "tool_call_id": "call_1", "content": "one\n\ntwo"}


def test_an_image():
    assert blocks(PNG) == [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aW1n"}}]
    assert parts(TextContent(text="see"), PNG) == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,aW1n"},
    ]


def test_an_image_in_chat_completions_is_described():
    shown = openai_result("call_1", result(TextContent(text="see"), PNG), "chat")["content"]
    assert shown == "see\n\n[image, image/png, 3 bytes: not shown, because the model API does not take it here]"


def test_a_pdf():
    pdf = EmbeddedResource(resource=ResourceContents(uri="file:///a/report.pdf", blob="cGRm", mime_type="application/pdf"))
    assert blocks(pdf) == [{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}}]
    assert parts(pdf) == [{"type": "input_file", "filename": "report.pdf", "file_data": "data:application/pdf;base64,cGRm"}]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (
            AudioContent(data="YXVkaW8=", mime_type="audio/wav"),
            "[audio, audio/wav, 6 bytes: not shown, because the model API does not take it here]",
        ),
        (
            ImageContent(data="aW1n", mime_type="image/bmp"),
            "[image, image/bmp, 3 bytes: not shown, because the model API does not take it here]",
        ),
        (
            EmbeddedResource(resource=ResourceContents(uri="file:///a.bin", blob="AAAA")),
            "[resource file:///a.bin, application/octet-stream, 3 bytes: not shown, because the model API does not take it here]",
        ),
        (EmbeddedResource(resource=ResourceContents(uri="file:///a.txt", text="hello")), "Resource file:///a.txt:\nhello"),
        (
            ResourceLink(uri="file:///b", name="b", title="B", description="the letter"),
            "Link to a resource: file:///b (B: the letter)",
        ),
        (UnknownContent(type="hologram", x=1), '{"type":"hologram","x":1}'),
    ],
)
def test_what_the_apis_do_not_take_becomes_text(block, text):
    assert blocks(block) == [{"type": "text", "text": text}]
    assert parts(block) == text


def test_a_structured_value_without_content_is_shown_as_json():
    assert parts(structured_content={"sum": 3}) == '{"sum":3}'
    assert parts(TextContent(text="3"), structured_content={"sum": 3}) == "3"


def test_an_empty_result_has_a_text_because_the_apis_refuse_an_empty_one():
    assert blocks() == blocks(TextContent(text=" \n")) == [{"type": "text", "text": "The tool returned nothing."}]


def test_a_failed_tool_is_marked_and_has_only_text_for_anthropic():
    failed = result(TextContent(text="no such city"), PNG, is_error=True)
    assert anthropic_result("toolu_1", failed)["is_error"] is True
    assert {block["type"] for block in anthropic_result("toolu_1", failed)["content"]} == {"text"}
    assert openai_result("call_1", failed, "chat")["content"].startswith("Error: no such city")
    assert openai_result("call_1", failed)["output"][0] == {"type": "input_text", "text": "Error:"}
    assert openai_result("call_1", result(TextContent(text="no"), is_error=True))["output"] == "Error: no"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ServerExited(["server", "--token", "SECRET"], phase="serving", exit=ExitStatus(code=3), stderr=["SECRET"]),
            "the server exited (exit code 3) before it responded",
        ),
        (ServerExited(["server", "SECRET"], phase="serving"), "the server closed its output before it responded"),
        (StartFailed(["SECRET"], reason="not found"), "there is no connection to the server"),
        (HttpError("https://example.com/?key=SECRET", reason="dns"), "there is no connection to the server"),
        (McpError("Unknown city\nTry London", code=-32602), "Unknown city\nTry London"),
        (TwopipesError(), "TwopipesError"),
    ],
)
def test_an_error_is_a_result_without_secrets(error, text):
    shown = anthropic_result("toolu_1", error)
    assert shown["is_error"] is True
    assert text in shown["content"][0]["text"]
    assert openai_result("call_1", error)["output"].startswith("Error: ")
    assert "SECRET" not in json.dumps([shown, openai_result("call_1", error), openai_result("call_1", error, "chat")])


def test_an_unknown_api_is_refused():
    with pytest.raises(ValueError, match="unknown api 'assistants'; use 'responses' or 'chat'"):
        openai_result("call_1", result(), "assistants")  # type: ignore[arg-type]
