"""A host that uses the official SDKs of two model APIs: ``model_host.py URL FILE``. Its code is that of the page about hosts."""

import asyncio
import json
import re
import sys
from functools import partial
from pathlib import Path

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "build-a-host.md"


async def main(url, file):
    page = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[:2]:
        exec(block, page)  # it defines functions
    question = {"role": "user", "content": "Greet Ada."}
    async with AsyncAnthropic(api_key="none", base_url=url, max_retries=0) as anthropic:
        messages = await page["chat"](partial(anthropic.messages.create, model="any", max_tokens=10), [question], file)
    async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as openai:
        items = await page["chat_with_openai"](partial(openai.responses.create, model="any"), [question], file)
    return {"anthropic": messages[-1]["content"][0].text, "openai": items[-1].content[0].text}


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
