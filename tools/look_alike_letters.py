"""Write ``_host/look_alike_letters.py``: which letters of other alphabets look like ASCII letters and digits.

    python tools/look_alike_letters.py confusables.txt

The argument is the table of Unicode Technical Standard 39, https://www.unicode.org/Public/security/. It is not in this repository:
run this only for a newer table.
"""

import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

MODULE = Path(__file__).resolve().parents[1] / "src" / "twopipes" / "_host" / "look_alike_letters.py"
# Alphabets with letters that pass for Latin ones. A name in another script is not taken for an ASCII name as a whole.
ALPHABETS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
# Not in the table, because they look alike only in some fonts.
MORE = {"w": "ω", "n": "п"}
HEADER = '''\
"""Letters of other alphabets by the ASCII letters and digits that they look like. Made by ``tools/look_alike_letters.py``.

Derived from confusables.txt of Unicode Technical Standard 39, version {version}. Copyright Unicode, Inc.; terms of use:
https://www.unicode.org/terms_of_use.html
"""
# ruff: noqa: RUF001 - that is the point

from typing import Final

LOOK_ALIKE_LETTERS: Final = {{
'''


def read(path: Path) -> tuple[str, dict[str, str]]:
    """Return the version of a table, and what each character of it looks like."""
    text = path.read_text(encoding="utf-8-sig")
    version = re.search(r"^# Version: (\S+)", text, re.MULTILINE)
    rows = re.findall(r"^([0-9A-F]+) ;\s*([0-9A-F ]+) ;", text, re.MULTILINE)
    return version[1] if version else "unknown", {_text(source): _text(target) for source, target in rows}


def _text(numbers: str) -> str:
    return "".join(chr(int(number, 16)) for number in numbers.split())


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(each for each in decomposed if not unicodedata.combining(each)).lower()


def letters() -> Iterator[str]:
    """Yield the letters that a skeleton cannot reduce to ASCII without a table."""
    for letter in map(chr, range(0x80, 0x1_0000)):
        alphabet = unicodedata.name(letter, "").partition(" ")[0]
        if alphabet in ALPHABETS and letter.isalpha() and not unicodedata.decomposition(letter):
            yield letter


def like_ascii(letter: str, table: Mapping[str, str]) -> str | None:
    """Return what a letter, or else its capital form, looks like, if that is ASCII."""
    for form in (letter, letter.upper()):
        target = _plain(table.get(form, ""))
        if target.isascii() and target.isalnum():
            return target
    return None


def main(path: Path) -> None:
    """Write the module."""
    version, table = read(path)
    found: defaultdict[str, str] = defaultdict(str, MORE)
    for letter in letters():
        target = like_ascii(letter, table)
        if target is not None and letter not in found[target]:
            found[target] += letter
    rows = "".join(f'    "{target}": "{"".join(sorted(found[target]))}",\n' for target in sorted(found))
    MODULE.write_text(HEADER.format(version=version) + rows + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
