"""The ranking of tools for a query."""

import pytest

from tool_catalogue import Query, read_catalogue, read_queries
from twopipes._gateway.hub.search import SearchIndex, ToolText, words_of

INDEX = SearchIndex(read_catalogue())


def test_the_table_has_fifty_queries_for_a_large_catalogue():
    queries = read_queries("queries.txt")
    assert len({query.words for query in queries}) == 50
    assert len(read_catalogue()) > 250
    assert {query.tool for query in queries} <= {tool.name for tool in read_catalogue()}


@pytest.mark.parametrize("query", read_queries("queries.txt"), ids=lambda query: query.tool)
def test_the_right_tool_is_ranked_first(query: Query):
    assert INDEX.search(query.words, 5)[0] == query.tool


def test_most_queries_that_the_ranking_was_not_tuned_for_find_their_tool():
    queries = read_queries("held_out_queries.txt")
    found = [INDEX.search(query.words, 5) for query in queries]
    first = sum(names[:1] == [query.tool] for names, query in zip(found, queries, strict=True))
    among_five = sum(query.tool in names for names, query in zip(found, queries, strict=True))
    assert (first, among_five, len(queries)) == (35, 40, 40)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("create_issue", ["creat", "issu"]),
        ("createHTTPRoutes", ["createhttprout", "creat", "http", "rout"]),
        ("git-log", ["gitlog", "git", "log"]),
        ("Send an e-mail to Zoë", ["send", "email", "e", "mail", "zoë"]),
        ("running classes, stopped entries", ["run", "class", "stop", "entry"]),
        ("the news of this status", ["news", "status"]),
        ("日本語", ["日本語"]),
        ("…!?", []),
    ],
)
def test_words_are_parts_of_names_without_endings(text: str, words: list[str]):
    assert list(words_of(text)) == words


def test_a_word_in_the_name_counts_more_than_one_in_the_description():
    index = SearchIndex([ToolText("a__other", description="Not to copy."), ToolText("b__copy", description="Something.")])
    assert index.search("copy", 5) == ["b__copy", "a__other"]


def test_titles_and_parameters_are_searched():
    index = SearchIndex([ToolText("a__x", title="Reindeer"), ToolText("a__y", parameters=["sledge_id"]), ToolText("a__z")])
    assert index.search("reindeer", 5) == ["a__x"]
    assert index.search("sledges", 5) == ["a__y"]


def test_a_query_finds_longer_words_and_words_of_the_same_meaning():
    index = SearchIndex([ToolText("a__fork_repository"), ToolText("a__remove_directory"), ToolText("a__nothing")])
    assert index.search("repo", 5) == ["a__fork_repository"]
    assert index.search("delete folder", 5) == ["a__remove_directory"]


def test_equal_tools_are_in_the_order_of_their_names():
    index = SearchIndex([ToolText("b__copy"), ToolText("c__copy"), ToolText("a__copy")])
    assert index.search("copy", 2) == ["a__copy", "b__copy"]


@pytest.mark.parametrize("query", ["", "the of a", "zzzz", "!?"])
def test_a_query_without_a_known_word_finds_nothing(query: str):
    assert INDEX.search(query, 5) == []


def test_an_index_without_tools_finds_nothing():
    assert SearchIndex([]).search("copy", 5) == []


def test_texts_of_any_length_are_searched_in_bounded_time():
    index = SearchIndex([ToolText("a__x", description="begin " + "word " * 1_000_000), ToolText("a__y")])
    assert index.search("begin " * 1_000_000, 5) == ["a__x"]
