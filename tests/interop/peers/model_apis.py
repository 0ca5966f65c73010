"""The official SDKs of two model APIs: ``model_apis.py JOB``. They check what we made of tools and results, and send it.

The SDKs describe the bodies of requests as typed dictionaries. pydantic, which both use, checks them. It drops unknown members of a
typed dictionary, so the value that it returns is compared with the given one.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from anthropic import Anthropic
from anthropic.types import ToolParam, ToolResultBlockParam
from anthropic.types.tool_result_block_param import Content
from openai import OpenAI
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolMessageParam
from openai.types.responses import FunctionToolParam
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter, ValidationError

QUESTION = {"role": "user", "content": "What is 1 + 2?"}


def rejected(kind, values):
    """Return the values that do not have the type, each with the reason."""
    adapter = TypeAdapter(kind)
    for value in values:
        try:
            taken = adapter.validate_python(value, strict=True)
        except ValidationError as error:
            yield f"{value!r}: {error}"
        else:
            if taken != value:
                yield f"{value!r}: the SDK knows only {taken!r}"


def anthropic(job, url):
    # pydantic reads an Iterable lazily, so the blocks are checked by themselves.
    blocks = [block for result in job["results"] for block in result["content"]]
    outer = [{name: value for name, value in result.items() if name != "content"} for result in job["results"]]
    wrong = [*rejected(ToolParam, job["tools"]), *rejected(Content, blocks), *rejected(ToolResultBlockParam, outer)]

    client = Anthropic(api_key="none", base_url=url, max_retries=0)
    first = client.messages.create(model="any", max_tokens=10, tools=job["tools"], messages=[QUESTION])
    call = first.content[0]
    results = {"role": "user", "content": job["results"]}
    last = client.messages.create(
        model="any",
        max_tokens=10,
        tools=job["tools"],
        messages=[QUESTION, {"role": "assistant", "content": first.content}, results],
    )
    return {"rejected": wrong, "call": [call.id, call.name, call.input], "text": last.content[0].text}


def responses(job, url):
    wrong = [*rejected(FunctionToolParam, job["tools"]), *rejected(FunctionCallOutput, job["results"])]
    client = OpenAI(api_key="none", base_url=url, max_retries=0)
    first = client.responses.create(model="any", tools=job["tools"], input=[QUESTION])
    call = first.output[0]
    last = client.responses.create(model="any", tools=job["tools"], input=[QUESTION, *first.output, *job["results"]])
    return {"rejected": wrong, "call": [call.call_id, call.name, json.loads(call.arguments)], "text": last.output_text}


def chat(job, url):
    wrong = [*rejected(ChatCompletionFunctionToolParam, job["tools"]), *rejected(ChatCompletionToolMessageParam, job["results"])]
    client = OpenAI(api_key="none", base_url=url, max_retries=0)
    first = client.chat.completions.create(model="any", tools=job["tools"], messages=[QUESTION])
    message = first.choices[0].message
    call = message.tool_calls[0]
    last = client.chat.completions.create(model="any", tools=job["tools"], messages=[QUESTION, message, *job["results"]])
    text = last.choices[0].message.content
    return {"rejected": wrong, "call": [call.id, call.function.name, json.loads(call.function.arguments)], "text": text}


def main(job):
    found = {api.__name__: api(job[api.__name__], job["url"]) for api in (anthropic, responses, chat)}
    return {**found, "versions": {name: version(name) for name in ("anthropic", "openai")}}


print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
