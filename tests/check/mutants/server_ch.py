"""Servers that break the rules of caching, one each."""

from check.mutation import message_mutant


def read(message):
    """The result, if it is what a resource holds."""
    result = message.get("result", {})
    return result if "contents" in result else {}


@message_mutant("CH-01")
def does_not_say_how_long_a_resource_is_good(message):
    read(message).pop("ttlMs", None)
    return message


@message_mutant("CH-01")
def does_not_say_for_whom_a_list_is(message):
    if "prompts" in message.get("result", {}):
        del message["result"]["cacheScope"]
    return message


@message_mutant("CH-02")
def counts_backwards(message):
    if read(message):
        message["result"]["ttlMs"] = -1
    return message


@message_mutant("CH-02")
def has_a_scope_of_its_own(message):
    if "tools" in message.get("result", {}):
        message["result"]["cacheScope"] = "everybody"
    return message


@message_mutant("CH-05")
def lets_questions_be_kept(message):
    if message.get("result", {}).get("resultType") == "input_required":
        message["result"].update(ttlMs=1000, cacheScope="public")
    return message


@message_mutant("CH-08")
def has_another_scope_for_the_last_page(message):
    result = message.get("result", {})
    if "tools" in result and "nextCursor" not in result:
        result["cacheScope"] = "private" if result["cacheScope"] == "public" else "public"
    return message
