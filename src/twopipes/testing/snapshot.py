"""Write a conversation to a readable text file, and compare a conversation with its file.

The format is a part of that of the conversation files (docs/howto/write-a-conversation-test.md)::

    # adding two numbers
    @define META "io.modelcontextprotocol/protocolVersion":"2026-07-28", ...
    > {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},"_meta":{$META}}}
    < {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"3"}], ...}}
    = drop < tools/call

``>`` goes from the client to the server, ``<`` back, ``=`` is an event of the connection. Ids are renumbered, from 1 on each side.
``"..."`` matches any value, and a member ``"...":"..."`` any further members: written for volatile members, and by people who edit
the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, MsgspecError, Struct, json

from twopipes._protocol.revisions import META_PROGRESS_TOKEN, META_SUBSCRIPTION_ID
from twopipes._trace.conversation import Conversation
from twopipes._trace.format import Event
from twopipes._trace.matching import BUILT_IN, Ignoring
from twopipes._trace.message import Message
from twopipes.testing.expectations import ANYTHING, ExpectationFailed, describe_difference, differences

VARIABLE = "TWOPIPES_UPDATE_CONVERSATIONS"
"""The environment variable that has files written instead of compared."""

# Opaque values of the server (MR-07), also on their way back. A progress token is renumbered with its request.
_UNPREDICTABLE = ("params.requestState", *(path for path in BUILT_IN if not path.endswith(".progressToken")))
# Members of _meta that differ in each request; those before them are often the same.
_PER_REQUEST = {META_PROGRESS_TOKEN, META_SUBSCRIPTION_ID}
# The minimum length of a repeated piece that gets a name.
_MIN_NAMED = 40
_OFF = {"", "0", "no", "off", "false"}


class Step(Struct, frozen=True):
    """One line of the conversation: a message, or an event of the connection (``=``)."""

    kind: Literal[">", "<", "="]
    text: str
    comments: tuple[str, ...] = ()  # the comment lines above it in the file

    def __str__(self) -> str:
        return f"{self.kind} {self.text}".rstrip()

    def is_met_by(self, found: Step) -> bool:
        """Return whether a step of a conversation matches this step of a file."""
        if self.kind != found.kind:
            return False
        if self.text == found.text:
            return True
        expected, there = _value(self.text), _value(found.text)
        return expected is not UNSET and there is not UNSET and not any(differences(expected, there))


# From a conversation


def steps_of(conversation: Conversation, volatile: Iterable[str] = (), *, numbered: bool = True) -> list[Step]:
    """Return the lines of a conversation; if ``numbered``, with renumbered ids and without the values of volatile members."""
    ignoring = Ignoring(volatile, values=_UNPREDICTABLE)
    numbers: dict[int, int] = {}
    counts = {">": 0, "<": 0}
    steps: list[Step] = []
    connection = 0
    for item in conversation.items:
        if isinstance(item, Message | Event):
            number = item.connection.number if isinstance(item, Message) else item.connection
            if number > connection:
                connection = number
                steps.append(Step("=", "the server is started again"))
        if isinstance(item, Message):
            for part in item.members or (item,):
                if part.shape == "request" and part.call is not None:
                    counts[part.direction] += 1
                    numbers[part.call.number] = counts[part.direction]
            text = _normalised(item, numbers, ignoring) if numbered else item.text
            steps.append(Step(item.direction, _on_one_line(text)))
        elif isinstance(item, Event) and item.name == "note" and item.reason:
            steps.append(Step("=", item.reason))
    return steps


def _normalised(message: Message, numbers: dict[int, int], ignoring: Ignoring) -> str:
    if message.shape == "batch":
        members = [_normalised(member, numbers, ignoring) for member in message.members]
        return f"[{','.join(members)}]"
    value = message.value
    if not isinstance(value, dict):
        return message.text
    if message.call is not None:
        _renumber(message, value, numbers[message.call.number])
    return json.encode(_blanked(value, (), ignoring)).decode()


def _renumber(message: Message, value: dict[str, Any], number: int) -> None:
    """Replace the id of a request, and tokens made from it, by its number."""
    if message.shape in {"request", "result", "error"}:
        value["id"] = number
    for part in (value.get("params"), value.get("result")):
        if not isinstance(part, dict):
            continue
        meta = part.get("_meta")
        places = [(part, "requestId" if message.method == "notifications/cancelled" else "")]
        places += [(part, "progressToken" if message.method == "notifications/progress" else "")]
        if isinstance(meta, dict):
            places += [(meta, META_PROGRESS_TOKEN), (meta, META_SUBSCRIPTION_ID)]
        for holder, name in places:
            if name in holder:
                holder[name] = number


def _blanked(value: Any, path: tuple[str, ...], ignoring: Ignoring) -> Any:
    if path and (ignoring.covers(path) or ignoring.covers_value(path)):
        return ANYTHING
    if isinstance(value, dict):
        return {name: _blanked(member, (*path, name), ignoring) for name, member in value.items()}
    if isinstance(value, list):
        return [_blanked(entry, (*path, str(number)), ignoring) for number, entry in enumerate(value)]
    return value


def _on_one_line(text: str) -> str:
    """Escape unprintable characters, which only a line that is not a message can contain."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


# To a file and back


def written(steps: Sequence[Step]) -> str:
    """Return the text of a file. A repeated ``_meta`` gets a name, so that the rest is readable."""
    defined, short = shortened(steps)
    lines: list[str] = []
    for number, (step, line) in enumerate(zip(steps, short, strict=True)):
        # The title comes first, before the definitions.
        lines += [*step.comments, *(defined if number == 0 else ()), line]
    return "".join(f"{line}\n" for line in lines)


def shortened(steps: Sequence[Step]) -> tuple[list[str], list[str]]:
    """Return definitions of the pieces that several lines have in common, and the lines with these names."""
    names = _names_for([step.text for step in steps])
    return [f"@define {name} {piece}" for piece, name in names.items()], [_short(step, names) for step in steps]


def read_steps(text: str) -> list[Step]:
    """Parse the text of a file."""
    steps: list[Step] = []
    defined: dict[str, str] = {}
    comments: list[str] = []
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "@define":
            name, _, piece = rest.partition(" ")
            defined[name] = piece
        elif kind in {">", "<", "="}:
            for name, piece in defined.items():
                rest = re.sub(rf"\${re.escape(name)}(?!\w)", piece.replace("\\", r"\\"), rest)
            steps.append(Step(kind, rest, tuple(comments)))  # type: ignore[arg-type]
            comments = []
        elif line.strip():
            comments.append(line)
    return steps


def _names_for(texts: Sequence[str]) -> dict[str, str]:
    """Return a name for each piece that several lines have in common."""
    everything = "\n".join(texts)
    if "$META" in everything:
        return {}  # a message contains this text, which would be ambiguous
    pieces: dict[str, None] = {}
    for text in texts:
        value = _value(text)
        for part in ("params", "result"):
            meta = value.get(part, {}).get("_meta") if isinstance(value, dict) and isinstance(value.get(part), dict) else None
            if isinstance(meta, dict):
                alike = dict(takewhile(lambda member: member[0] not in _PER_REQUEST, meta.items()))
                pieces[json.encode(alike).decode()[1:-1]] = None
    repeated = [piece for piece in pieces if len(piece) >= _MIN_NAMED and everything.count(piece) > 1]
    return {piece: "META" if not number else f"META{number + 1}" for number, piece in enumerate(repeated)}


def _short(step: Step, names: dict[str, str]) -> str:
    text = str(step)
    for piece, name in names.items():
        text = text.replace(piece, f"${name}")
    return text


def _value(text: str) -> Any:
    try:
        return json.decode(text.encode())
    except (MsgspecError, UnicodeEncodeError, RecursionError):
        return UNSET


# Comparison


def compare(
    conversation: Conversation,
    path: str | os.PathLike[str],
    *,
    volatile: Iterable[str] = (),
    update: bool | None = None,
    title: str | None = None,
) -> bool:
    """Compare a conversation with its file, or write the file with ``title`` as its first line; return whether it was written.

    See :meth:`LiveConversation.expect_conversation`.
    """
    __tracebackhide__ = True
    if update is None:
        update = os.environ.get(VARIABLE, "").lower() not in _OFF
    file = Path(path)
    found = steps_of(conversation, volatile)
    stored = read_steps(file.read_text(encoding="utf-8")) if file.is_file() else None
    if stored is None and not update:
        raise ExpectationFailed(
            f"the file {file} does not exist yet. The conversation now:\n\n{written(found)}\n"
            f"If it is right, store it with pytest --update-conversations, or {VARIABLE}=1, and commit the file."
        )
    aligned = _aligned(stored or [], found)
    if stored is not None and [str(step) for step in aligned] == [str(step) for step in stored]:
        return False
    if not update:
        raise ExpectationFailed(_describe_differences(file, stored or [], aligned))
    if stored is None and aligned:
        aligned[0] = Step(aligned[0].kind, aligned[0].text, (f"# {title or file.stem}",))
    elif stored and aligned and not aligned[0].comments:
        aligned[0] = Step(aligned[0].kind, aligned[0].text, stored[0].comments)  # the title stays
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(written(aligned), encoding="utf-8")
    return True


def _aligned(stored: Sequence[Step], found: Sequence[Step]) -> list[Step]:
    """Return the steps of the conversation, replaced by the matching steps of the file, with their wildcards and comments."""
    left = list(stored)
    aligned: list[Step] = []
    for step in found:
        match = next((each for each in left if each.text == step.text and each.kind == step.kind), None)
        match = match or next((each for each in left if each.is_met_by(step)), None)
        if match is not None:
            left.remove(match)
        aligned.append(match or step)
    return aligned


def _describe_differences(file: Path, stored: Sequence[Step], now: Sequence[Step]) -> str:
    names = _names_for([step.text for step in (*stored, *now)])
    before, after = [_short(step, names) for step in stored], [_short(step, names) for step in now]
    lines = [f"the conversation differs from {file}", ""]
    lines += unified_diff(before, after, "stored", "now", lineterm="", n=2)
    details: list[str] = []
    for tag, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "replace" and end - start == new_end - new_start:
            for one, other in zip(stored[start:end], now[new_start:new_end], strict=True):
                details += _describe_step(one, other)
    if details:
        lines += ["", "In detail:", *details]
    lines += ["", f"If the new one is right: run pytest --update-conversations, or set {VARIABLE}=1, and review the changes."]
    return "\n".join(lines)


def _describe_step(stored: Step, now: Step) -> list[str]:
    expected, found = _value(stored.text), _value(now.text)
    if stored.kind != now.kind or expected is UNSET or found is UNSET:
        return []
    return [f"  {now.kind} {describe_difference(each, 'stored', 'now')}" for each in differences(expected, found)]
