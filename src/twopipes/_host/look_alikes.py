"""What names look like. Two names with the same skeleton are easily confused by people, and by models that read them."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from twopipes._host.look_alike_letters import LOOK_ALIKE_LETTERS

# Characters of a name that are compared. What comes later is not seen, and a server could send names of megabytes.
_MAX_COMPARED: Final = 256
# What looks the same in lower case in most fonts: "i", "l", "1", "|" and "!" are one letter here, "o" and "0" another one.
_ONE_LETTER: Final = (b"i1|!0", b"llllo")
_IGNORED_ASCII: Final = bytes(each for each in range(128) if not chr(each).isalnum() and each not in b"|!")
_ASCII: Final = bytes.maketrans(*_ONE_LETTER)
_LETTERS: Final = str.maketrans({letter: target for target, letters in LOOK_ALIKE_LETTERS.items() for letter in letters})
# Not a word character, or a letter that is drawn as nothing: the Hangul fillers.
_IGNORED: Final = re.compile("[\\W_\u115f\u1160]+")
# Pairs of letters that look like one.
_PAIRS: Final = (("rn", "m"), ("vv", "w"), ("cl", "d"))


def skeleton(text: str) -> str:
    """Return what remains of a name for the eye: texts with the same skeleton look alike."""
    return joined(letters_of(text))


def letters_of(text: str) -> str:
    """Return the letters of a name in one form: without case, accents, punctuation and characters that are not visible."""
    text = text[:_MAX_COMPARED]
    if not text.isascii():
        # Letters are replaced before and after the change of case: a Greek capital Nu looks like N, and a small one like v.
        unified = unicodedata.normalize("NFKC", text).translate(_LETTERS).casefold()
        plain = "".join(each for each in unicodedata.normalize("NFKD", unified) if not unicodedata.combining(each))
        text = _IGNORED.sub("", plain.translate(_LETTERS).replace("|", "l").replace("!", "l"))
        if not text.isascii():
            return text.translate(str.maketrans("i10", "llo"))
    return text.lower().encode("ascii").translate(_ASCII, _IGNORED_ASCII).decode("ascii")


def joined(*letters: str) -> str:
    """Return the skeleton of a text whose parts have these letters."""
    text = "".join(letters)
    for pair, letter in _PAIRS:
        text = text.replace(pair, letter)
    return text
