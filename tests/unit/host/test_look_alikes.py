"""Names that look alike: known tricks have the same skeleton, and different words do not."""
# ruff: noqa: RUF001 - that is the point

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._host.look_alike_letters import LOOK_ALIKE_LETTERS
from twopipes._host.look_alikes import skeleton


@pytest.mark.parametrize(
    "name",
    [
        "READ_FILE",
        "readFile",
        "read-file",
        "read.file",
        "r\u00e9ad_file",
        "re\u0430d_file",
        "r\u0435\u0430d_fil\u0435",
        "re\u03b1d_file",
        "reɑd_file",
        "RE\u0391D_FILE",
        "\uff52\uff45\uff41\uff44_file",
        "\U0001d42b\U0001d41e\U0001d41a\U0001d41d_file",
        "re\u200bad_file",
        "re\u200dad_file",
        "re\u00adad_file",
        "\ufeffread_file",
        "read\u2060_file",
        "read\u3164_file",
        "read_f\u0131le",
        "read_fi1e",
        "read_fIIe",
        "read_f!|e",
        "read_f\u0456le",
        "read_file\u202e",
        "read_fi\ufe0fle",
        "read\n_file",
    ],
)
def test_known_tricks_look_like_the_name_that_they_imitate(name):
    assert skeleton(name) == skeleton("read_file")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("raw", "r\u0430w"),
        ("raw", "\u0433\u0430\u0461"),
        ("raw", "ravv"),
        ("modern", "rnodern"),
        ("modern", "modem"),
        ("cloud", "doud"),
        ("github", "g1thub"),
        ("GitHub", "\u0262\u0131tHub".replace("\u0262", "G")),
        ("pay", "\u0440\u0430\u0443"),
        ("NODE", "\u039dODE"),
        ("over", "o\u03bder"),
        ("HTTP", "\u041d\u0422\u0422\u0420"),
        ("http", "\u04bbttp"),
        ("send", "\u0455end"),
        ("copy", "\u0441\u043e\u0440\u0443"),
        ("o0", "O\u03bf"),
        ("sun", "s\u057d\u0578"),
        ("DATA", "\u13a0\u13aa\u13a2\u13aa"),
        ("q", "\u051b"),
        ("file", "\ufb01le"),
        ("\u0436\u0443\u043a", "\u0436y\u043a"),
    ],
)
def test_names_that_look_alike_have_the_same_skeleton(one, other):
    assert one != other
    assert skeleton(one) == skeleton(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("read", "lead"),
        ("get_file", "set_file"),
        ("add", "odd"),
        ("list", "last"),
        ("日本", "中国"),
        ("push", "pull"),
        ("жук", "лук"),
    ],
)
def test_different_words_do_not_look_alike(one, other):
    assert skeleton(one) != skeleton(other)


def test_only_the_beginning_of_a_long_name_is_compared():
    assert skeleton("x" * 300 + "1") == skeleton("x" * 300 + "2")
    assert skeleton("x" * 200 + "2") != skeleton("x" * 200 + "3")


@given(st.text())
def test_every_text_has_a_skeleton_without_case_and_punctuation(text):
    found = skeleton(text)
    assert found == skeleton(text)
    assert not {"_", "-", ".", " ", "\u200b"} & set(found)


@given(st.text(st.characters(codec="ascii"), max_size=20))
def test_an_ascii_name_looks_like_its_wide_form(text):
    wide = "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text)
    assert skeleton(wide) == skeleton(text)


def test_each_letter_of_the_table_is_there_once_and_is_needed():
    letters = "".join(LOOK_ALIKE_LETTERS.values())
    assert len(letters) == len(set(letters))
    assert all(unicodedata.normalize("NFKC", letter) == letter and not letter.isascii() for letter in letters)
    assert all(target.isascii() and target.isalnum() and target == target.lower() for target in LOOK_ALIKE_LETTERS)
