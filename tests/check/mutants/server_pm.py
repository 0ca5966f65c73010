"""Servers that break the rules of prompts, one each."""

from check.mutation import message_mutant
from check.response_mutants import become_error, become_result, response_mutant


@response_mutant("PM-01", "prompts/list")
def has_arguments_without_names(message, request):
    for prompt in message["result"]["prompts"]:
        for argument in prompt.get("arguments", []):
            argument["key"] = argument.pop("name")


@response_mutant("PM-01", "prompts/list", revision="2025-11-25")
def requires_in_words(message, request):
    for prompt in message["result"]["prompts"]:
        for argument in prompt.get("arguments", []):
            argument["required"] = "yes"


@response_mutant("PM-02", "prompts/get")
def mistakes_objects_for_texts(message, request):
    if "error" in message and any(isinstance(each, dict) for each in request["params"].get("arguments", {}).values()):
        become_result(message, messages=[{"role": "user", "content": {"type": "text", "text": "About [object Object]"}}])


@response_mutant("PM-03", "prompts/get")
def says_several_things_at_once(message, request):
    for each in message.get("result", {}).get("messages", []):
        each["content"] = [each["content"]]


@response_mutant("PM-03", "prompts/get", revision="2025-11-25")
def speaks_as_the_system(message, request):
    for each in message.get("result", {}).get("messages", []):
        each["role"] = "system"


@response_mutant("PM-04", "prompts/get")
def does_not_respond_to_an_unknown_prompt(message, request):
    if request["params"]["name"].startswith("twopipes"):
        become_result(message, messages=[])


@response_mutant("PM-04", "prompts/get", revision="2025-11-25")
def breaks_without_an_argument(message, request):
    if "error" in message and not request["params"]["name"].startswith("twopipes"):
        become_error(message, -32603)


@message_mutant("PM-05")
def does_not_notify_listeners(message):
    return None if message.get("method") == "notifications/prompts/list_changed" else message


@message_mutant("PM-05", revision="2025-11-25")
def does_not_announce_changes(message):
    return None if message.get("method") == "notifications/prompts/list_changed" else message


@response_mutant("PM-06", "prompts/get")
def embeds_an_empty_resource(message, request):
    for each in message.get("result", {}).get("messages", []):
        each["content"].get("resource", {}).pop("text", None)


@response_mutant("PM-06", "prompts/get", revision="2025-11-25")
def embeds_without_an_address(message, request):
    for each in message.get("result", {}).get("messages", []):
        each["content"].get("resource", {}).pop("uri", None)
