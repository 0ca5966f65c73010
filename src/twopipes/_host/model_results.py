"""Results of tool calls in the formats of model APIs.

A model waits for one result for each call that it makes, also for a call that failed or was denied; without it, the APIs refuse the
next request. So these functions take an error, too. What an API does not take, such as audio, becomes text that describes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.json import encode

from twopipes._client.results import CallResult
from twopipes._host.model_formats import OpenAIApi
from twopipes._protocol.content import AudioContent, EmbeddedResource, ImageContent, ResourceContents, ResourceLink, TextContent
from twopipes._protocol.types import ContentBlock
from twopipes.errors import HttpError, OpeningFailed, ServerExited, StartFailed, TwopipesError

# The types of images that both APIs document.
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF: Final = "application/pdf"
# Both refuse an empty block.
_NOTHING: Final = "The tool returned nothing."

Part = dict[str, Any]


def anthropic_result(tool_use_id: str, result: CallResult | TwopipesError) -> dict[str, Any]:
    """Return a ``tool_result`` block for Anthropic's Messages API. All results of one turn go into one message of the user.

    Args:
        tool_use_id: The ``id`` of the model's ``tool_use`` block.
        result: What the call returned, or the error that it raised. The model gets no command, address or output of the server.
    """
    is_error = isinstance(result, TwopipesError) or result.is_error
    # The API takes only text if `is_error` is set.
    content = _parts(result, _anthropic_text, _nothing if is_error else _anthropic_data)
    return {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, **({"is_error": True} if is_error else {})}


def openai_result(call_id: str, result: CallResult | TwopipesError, api: OpenAIApi = "responses") -> dict[str, Any]:
    """Return a result for one of OpenAI's APIs: an item of ``input`` for Responses, or a message for Chat Completions.

    Neither has a member for failures, so the text of one starts with ``Error:``.

    Args:
        call_id: The ``call_id`` of the model's ``function_call``; for Chat Completions, the ``id`` of the tool call.
        result: What the call returned, or the error that it raised. The model gets no command, address or output of the server.
        api: ``responses`` or ``chat``. Chat Completions takes only text.

    Raises:
        ValueError: The API is not known.
    """
    if api == "chat":
        text = "\n\n".join(part["text"] for part in _parts(result, _anthropic_text, _nothing))
        return {"role": "tool", "tool_call_id": call_id, "content": _failure(result) + text}
    if api != "responses":
        raise ValueError(f"unknown api {api!r}; use 'responses' or 'chat'")
    parts = _parts(result, _openai_text, _openai_data)
    if all(part["type"] == "input_text" for part in parts):
        output: Any = _failure(result) + "\n\n".join(part["text"] for part in parts)
    else:
        output = parts if not _failure(result) else [_openai_text(_failure(result).strip()), *parts]
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _failure(result: CallResult | TwopipesError) -> str:
    return "Error: " if isinstance(result, TwopipesError) or result.is_error else ""


def _parts(
    result: CallResult | TwopipesError, text: Callable[[str], Part], data: Callable[[str, str, str], Part | None]
) -> list[Part]:
    """Return the parts of a result. `data` returns a part for base64 data, its type and its name, or None if there is none."""
    if isinstance(result, TwopipesError):
        return [text(_explained(result))]
    parts = [part for block in result.content if (part := _part(block, text, data))]
    if not parts and result.has_structured:
        parts = [text(encode(result.structured).decode())]
    return parts or [text(_NOTHING)]


def _explained(error: TwopipesError) -> str:
    """Return an error for the model: without the command, its arguments, its output or an address, which may contain secrets."""
    match error:
        case ServerExited():
            how = "closed its output" if error.exit is None else f"exited ({error.exit.describe()})"
            return f"the server {how} before it responded"
        case StartFailed() | OpeningFailed() | HttpError():
            return "there is no connection to the server"
    return str(error).strip() or type(error).__name__


def _part(block: ContentBlock, text: Callable[[str], Part], data: Callable[[str, str, str], Part | None]) -> Part | None:
    match block:
        case TextContent():
            return text(block.text) if block.text.strip() else None
        case ImageContent() | AudioContent():
            return data(block.data, block.mime_type, block.type) or text(_described(block.type, block.mime_type, block.data))
        case ResourceLink():
            about = ": ".join(filter(None, [block.title or block.name, block.description]))
            return text(f"Link to a resource: {block.uri} ({about})")
        case EmbeddedResource(resource=resource):
            return _resource(resource, text, data)
    return text(encode(block).decode())  # a type that twopipes does not know


def _resource(resource: ResourceContents, text: Callable[[str], Part], data: Callable[[str, str, str], Part | None]) -> Part:
    if resource.text is not None:
        return text(f"Resource {resource.uri}:\n{resource.text}")
    blob, mime_type = resource.blob or "", resource.mime_type or "application/octet-stream"
    name = resource.uri.rpartition("/")[2] or "resource"
    return data(blob, mime_type, name) or text(_described(f"resource {resource.uri}", mime_type, blob))


def _described(what: str, mime_type: str, data: str) -> str:
    return f"[{what}, {mime_type}, {len(data) * 3 // 4} bytes: not shown, because the model API does not take it here]"


def _nothing(data: str, mime_type: str, name: str) -> None:
    return None


def _anthropic_text(text: str) -> Part:
    return {"type": "text", "text": text}


def _anthropic_data(data: str, mime_type: str, name: str) -> Part | None:
    source = {"type": "base64", "media_type": mime_type, "data": data}
    if mime_type in _IMAGES:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source} if mime_type == _PDF else None


def _openai_text(text: str) -> Part:
    return {"type": "input_text", "text": text}


def _openai_data(data: str, mime_type: str, name: str) -> Part | None:
    url = f"data:{mime_type};base64,{data}"
    if mime_type in _IMAGES:
        return {"type": "input_image", "image_url": url}
    return {"type": "input_file", "filename": name, "file_data": url} if mime_type == _PDF else None
