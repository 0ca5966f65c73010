"""Any texts can be searched."""

from hypothesis import given
from hypothesis import strategies as st

from twopipes._gateway.hub.search import SearchIndex, ToolText

WORDS = st.text(max_size=40)
TOOLS = st.builds(ToolText, WORDS, WORDS, WORDS, st.lists(WORDS, max_size=3))


@given(st.lists(TOOLS, max_size=6, unique_by=lambda tool: tool.name), WORDS, st.integers(1, 8))
def test_a_search_returns_names_of_the_index_each_once(tools, query, limit):
    found = SearchIndex(tools).search(query, limit)
    assert len(found) == len(set(found)) <= limit
    assert set(found) <= {tool.name for tool in tools}


@given(st.lists(TOOLS, max_size=6, unique_by=lambda tool: tool.name), st.from_regex(r"[b-df-hj-np-tv-z]{6,12}", fullmatch=True))
def test_a_tool_is_found_by_its_own_name(tools, name):
    others = [tool for tool in tools if name not in " ".join([*tool[:3], *tool.parameters]).lower()]
    assert SearchIndex([*others, ToolText(f"server__{name}")]).search(name, 1) == [f"server__{name}"]


@given(st.lists(TOOLS, max_size=6, unique_by=lambda tool: tool.name), WORDS)
def test_the_order_of_the_tools_does_not_matter(tools, query):
    assert SearchIndex(tools).search(query, 9) == SearchIndex(tools[::-1]).search(query, 9)
