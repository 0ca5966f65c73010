"""Full-text search over tools: BM25 with weighted fields. It knows nothing about servers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from math import log
from typing import Final, NamedTuple

# The usual parameters of BM25: how soon a repeated word counts no more, and how much less a word counts in a long field.
_K1: Final = 1.2
_B: Final = 0.5
# Characters of each text that are indexed. What a tool is for comes first.
_MAX_TEXT: Final = 4000
# Words of a query that count. A model may paste a whole conversation.
_MAX_QUERY: Final = 64

# How much a word counts that means the same as one of the query, or begins with it: "repo" finds "repository".
_SHARE_OF_SAME: Final = 0.4
_SHARE_OF_LONGER: Final = 0.5
_MIN_PREFIX: Final = 4
_COMPOUND: Final = re.compile(r"\w+(?:-\w+)*")
# To find out whether a flight is late is not to find a flight.
_FIND_OUT: Final = re.compile(r"\bfind out\b", re.IGNORECASE)
# Between the parts of a compound: "create_HTTPRoute" has three.
_PART: Final = re.compile(r"[-_]|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Words that say nothing about a tool. Those that are rare in descriptions would count most of all.
_WITHOUT_MEANING: Final = (
    "a about all an and any are as at be been but by can could did do does for from get had has have he her his how i if in into "
    "is it its me my no not of on one or our please she should so some such than that the their them then there these they this "
    "those to us use using was we were what when where which whose why will with would you your"
)
_STOP_WORDS: Final = frozenset(_WITHOUT_MEANING.split())
# They end like a plural, and "new" is a frequent word.
_NOT_PLURAL: Final = frozenset({"news"})
# Words that authors of tools use for the same thing. A query finds the others of a group as well, but they count less.
_SAME: Final = (
    "add create insert make new",
    "cancel delete erase remove",
    "change edit modify update",
    "find lookup search",
    "display list show view",
    "begin launch start",
    "end kill stop terminate",
    "download fetch",
    "directory folder",
    "email mail",
    "image photo picture",
    "internet online web",
    "big large size",
    "current now",
    "bill cost price",
)


class ToolText(NamedTuple):
    """What is searched of one tool."""

    name: str
    title: str = ""
    description: str = ""
    parameters: Sequence[str] = ()

    def fields(self) -> tuple[tuple[float, str], ...]:
        """Return each text with its weight: a word in the name says most about a tool."""
        return (3.0, self.name), (2.0, self.title), (1.0, self.description), (0.25, " ".join(self.parameters))


class SearchIndex:
    """Ranks tools by how well they fit a query."""

    def __init__(self, tools: Iterable[ToolText]) -> None:
        texts = list(tools)
        self._names = [text.name for text in texts]
        # For each word the tools that contain it, and how much it counts there.
        self._found: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for field in zip(*(text.fields() for text in texts), strict=True):
            self._add_field(field)

    def search(self, query: str, limit: int) -> list[str]:
        """Return the names of the best tools, best first. Tools without any word of the query are left out."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in dict.fromkeys(islice(words_of(query), _MAX_QUERY)):
            for tool, score in self._scores_of(word).items():
                scores[tool] += score
        best = nsmallest(limit, scores, key=lambda tool: (-scores[tool], self._names[tool]))
        return [self._names[tool] for tool in best]

    def _scores_of(self, word: str) -> dict[int, float]:
        """Return how well each tool fits one word of a query: by the word itself, or by the best of the related ones."""
        scores: dict[int, float] = {}
        for related, share in self._related(word).items():
            found = self._found[related]
            rarity = log(1 + (len(self._names) - len(found) + 0.5) / (len(found) + 0.5))
            for tool, count in found.items():
                score = share * rarity * count * (_K1 + 1) / (count + _K1)
                scores[tool] = max(score, scores.get(tool, 0.0))
        return scores

    def _related(self, word: str) -> dict[str, float]:
        """Return the words of the index that a word of a query finds, and how much each counts."""
        shares = dict.fromkeys(_same.get(word, ()), _SHARE_OF_SAME)
        if len(word) >= _MIN_PREFIX:
            shares |= dict.fromkeys((each for each in self._found if each.startswith(word)), _SHARE_OF_LONGER)
        shares[word] = 1.0
        return {each: share for each, share in shares.items() if each in self._found}

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
    """Yield the words of a text in a basic form, and the parts of compounds: ``createIssues`` contains ``issu``."""
    for compound in _COMPOUND.findall(_FIND_OUT.sub("", text[:_MAX_TEXT])):
        parts = _PART.sub(" ", compound).split()
        if len(parts) > 1 and "_" not in compound:
            yield _stem("".join(parts).lower())  # "email" finds "e-mail", and "javascript" finds "JavaScript"
        for part in parts:
            word = part.lower()
            if word not in _STOP_WORDS:
                yield _stem(word)


def _stem(word: str) -> str:
    """Remove the usual English endings, so that "scheduled meetings" finds "schedule a meeting"."""
    if word in _NOT_PLURAL:
        return word
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


_same: Final = {_stem(word): [_stem(each) for each in group.split()] for group in _SAME for word in group.split()}
