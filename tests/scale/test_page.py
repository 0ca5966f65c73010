"""The page and the files that the tests run are the same."""

import re

import pytest

from scale.services import FILES, PAGE

BLOCKS = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE.read_text(), re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.iterdir() if path.is_file()))
def test_the_page_shows_the_file_as_it_is(name):
    assert BLOCKS[name] == (FILES / name).read_text()


def test_the_page_shows_no_other_file():
    assert BLOCKS.keys() == {path.name for path in FILES.iterdir() if path.is_file()}
