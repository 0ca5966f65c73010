"""Full-text search over tools: BM25 with weighted fields. It knows nothing about servers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from math import log
from typing import Final, NamedTuple

# The usual parameters of BM25: how soon a repeated word counts no more, and how much less a word counts in a long field.
_K1: Final = 1.2
_B: Final = 0.75
# Characters of each text that are indexed. What a tool is for comes first.
_MAX_TEXT: Final = 4000
# Words of a query that count. A model may paste a whole conversation.
_MAX_QUERY: Final = 64

# "createHTTPRoute" is three words.
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[^\W_]+")
_HYPHENATED: Final = re.compile(r"[^\W_]+(?:-[^\W_]+)+")
# Words that say nothing about a tool. Those that are rare in descriptions would count most of all.
_STOP_WORDS: Final = frozenset(
    "a about all an and any are as at be been but by can could did do does for from had has have he her his how i if in into is it "
    "its me my no not of on one or our please she should so some such than that the their them then there these they this those to "
    "us use using was we were what when where which who whose why will with would you your".split()
)


class ToolText(NamedTuple):
    """What is searched of one tool."""

    name: str
    title: str = ""
    description: str = ""
    parameters: Sequence[str] = ()

    def fields(self) -> tuple[tuple[float, str], ...]:
        """Return each text with its weight: a word in the name says most about a tool."""
        return (3.0, self.name), (2.0, self.title), (1.0, self.description), (0.5, " ".join(self.parameters))


class SearchIndex:
    """Ranks tools by how well they fit a query. Building it takes about 25 ms for 500 tools."""

    def __init__(self, tools: Iterable[ToolText]) -> None:
        texts = list(tools)
        self._names = [text.name for text in texts]
        # For each word the tools that contain it, and how much it counts there.
        self._found: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for field in zip(*(text.fields() for text in texts), strict=True):
            self._add_field(field)

    def search(self, query: str, limit: int) -> list[str]:
        """Return the names of the best tools, best first. Tools without any word of the query are left out."""
        scores: Counter[int] = Counter()
        for word in set(list(words_of(query))[:_MAX_QUERY]):
            found = self._found.get(word, {})
            rarity = log(1 + (len(self._names) - len(found) + 0.5) / (len(found) + 0.5))
            for tool, count in found.items():
                scores[tool] += rarity * count * (_K1 + 1) / (count + _K1)  # type: ignore[assignment]
        best = nsmallest(limit, scores, key=lambda tool: (-scores[tool], self._names[tool]))
        return [self._names[tool] for tool in best]

    def _add_field(self, field: Sequence[tuple[float, str]]) -> None:
        """Add one text of every tool."""
        counts = [Counter(words_of(text)) for _, text in field]
        average = sum(count.total() for count in counts) / len(counts) or 1.0
        for tool, (count, (weight, _)) in enumerate(zip(counts, field, strict=True)):
            norm = 1 - _B + _B * count.total() / average
            for word, times in count.items():
                known = self._found[word]
                known[tool] = known.get(tool, 0.0) + weight * times / norm


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text in a basic form: ``createIssues`` contains ``creat`` and ``issu``."""
    text = text[:_MAX_TEXT]
    for whole in _HYPHENATED.findall(text):
        yield _stem(whole.replace("-", "").lower())  # "email" finds "e-mail"
    for word in _WORD.findall(_CAMEL.sub(" ", text)):
        lower = word.lower()
        if lower not in _STOP_WORDS:
            yield _stem(lower)


def _stem(word: str) -> str:
    """Remove the usual English endings, so that "scheduled meetings" finds "schedule a meeting"."""
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":  # "running" is "run"
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word
