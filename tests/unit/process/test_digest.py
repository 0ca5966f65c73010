"""The digest of text that names files and keys of caches."""

from twopipes._process.digest import digest_of


def test_it_is_the_same_in_every_process_and_version_of_python():
    """Otherwise every upgrade of Python would leave files behind that are not found any more."""
    assert digest_of("abc") == "f504781d5ab524acead25cc8b5a3ec8b75cfda888ee42c32fd18d240c5a367ff"


def test_texts_that_differ_have_different_digests():
    texts = ["", "a", "b", "ab", "ba", "a\0", "ä", "\udcff".encode("unicode_escape").decode(), "a" * 10_000, "a" * 10_001]
    assert len({digest_of(text) for text in texts}) == len(texts)
    assert {len(digest_of(text)) for text in texts} == {64}
