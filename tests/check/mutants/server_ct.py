"""Servers that break the rules of content, one each."""

from check.mutation import message_mutant
from check.response_mutants import response_mutant


def blocks_of(message, kind):
    content = message.get("result", {}).get("content")
    return [block for block in content if block["type"] == kind] if isinstance(content, list) else []


@response_mutant("CT-01", "tools/call")
def calls_the_text_something_else(message, request):
    for block in blocks_of(message, "text"):
        block["value"] = block.pop("text")


@response_mutant("CT-01", "tools/call")
def sends_holograms(message, request):
    for block in blocks_of(message, "image"):
        block["type"] = "hologram"


@response_mutant("CT-02", "tools/call", revision="2025-03-26")
def sends_links_to_those_who_do_not_know_them(message, request):
    for block in blocks_of(message, "text"):
        block.update(type="resource_link", uri="note://first", name="first")


@response_mutant("CT-02", "tools/call", revision="2024-11-05")
def sends_sounds_to_those_who_do_not_know_them(message, request):
    for block in blocks_of(message, "image"):
        block.update(type="audio", mimeType="audio/wav")


@response_mutant("CT-03", "tools/call")
def sends_bytes_as_hexadecimal(message, request):
    for block in blocks_of(message, "image"):
        block["data"] = "0x89 0x50"


@response_mutant("CT-03", "tools/call", revision="2025-11-25")
def has_an_invalid_mime_type(message, request):
    for block in blocks_of(message, "image"):
        block["mimeType"] = "png"


@response_mutant("CT-03", "resources/read")
def reads_bytes_as_hexadecimal(message, request):
    for item in message.get("result", {}).get("contents", []):
        if "blob" in item:
            item["blob"] = "0x89 0x50"


@response_mutant("CT-04", "tools/call")
def has_a_priority_of_seven(message, request):
    for block in blocks_of(message, "text"):
        block["annotations"] = {"priority": 7}


@response_mutant("CT-04", "resources/list", revision="2025-11-25")
def is_meant_for_the_model(message, request):
    for item in message["result"]["resources"]:
        item["annotations"] = {"audience": ["model"]}


@response_mutant("CT-04", "tools/call", revision="2025-06-18")
def was_modified_yesterday(message, request):
    for block in blocks_of(message, "text"):
        block["annotations"] = {"lastModified": "yesterday"}


@message_mutant("CT-05")
def embeds_without_having_resources(message):
    message.get("result", {}).get("capabilities", {}).pop("resources", None)
    return message


@message_mutant("CT-06")
def has_an_icon_without_a_src(message):
    info = message.get("result", {}).get("_meta", {}).get("io.modelcontextprotocol/serverInfo", {})
    if "icons" in info:
        info["icons"] = [{"mimeType": "image/png"}]
    return message


@response_mutant("CT-06", "tools/list", revision="2025-11-25")
def has_a_purple_icon(message, request):
    for tool in message["result"]["tools"]:
        tool["icons"] = [{"src": "https://example.com/i.png", "theme": "purple"}]


@response_mutant("CT-06", "prompts/list")
def has_one_size(message, request):
    for prompt in message["result"]["prompts"]:
        prompt["icons"] = [{"src": "https://example.com/i.png", "sizes": "48x48"}]
