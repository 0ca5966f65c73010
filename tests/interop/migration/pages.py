"""The pages about migration and their servers: ``python tests/interop/migration/pages.py`` updates the diffs on the pages."""

import ast
import re
from difflib import unified_diff
from pathlib import Path

HERE = Path(__file__).parent
HOWTO = HERE.parents[2] / "docs" / "howto"
PAGES = {
    HOWTO / "migrate-from-fastmcp.md": ("fastmcp_notes", "fastmcp_weather", "fastmcp_todo"),
    HOWTO / "migrate-from-the-official-sdk.md": ("official_2_bookshop", "official_1_ledger", "official_1_documents"),
}
DIFF = re.compile(r"^```diff\n(--- tests/interop/migration/(\w+)/before\.py\n.*?)^```$", re.DOTALL | re.MULTILINE)


def diff_of(name: str) -> str:
    """Return the edits that migrate a server."""
    files = [HERE / name / f"{when}.py" for when in ("before", "after")]
    before, after = (file.read_text().splitlines(keepends=True) for file in files)
    names = [file.relative_to(HERE.parents[2]).as_posix() for file in files]
    # The line numbers of a hunk are not useful, and would change with every line above it.
    return "".join("@@\n" if line.startswith("@@") else line for line in unified_diff(before, after, *names, n=0))


def diffs_on(page: Path) -> dict[str, str]:
    """Return the edits that a page shows, by server name."""
    return {name: diff for diff, name in DIFF.findall(page.read_text())}


def rows_on(page: Path, heading: str) -> list[list[str]]:
    """Return the rows of all tables below a heading, as lists of cells."""
    section = page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows: list[list[str]] = []
    for line in section.splitlines():
        if line.startswith("|---"):
            rows.pop()  # the row above it names the columns
        elif line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def names_used(name: str, when: str) -> set[str]:
    """Return the names that a server uses of the libraries: modules, imported names, attributes, and keyword arguments."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((HERE / name / f"{when}.py").read_text())):
        match node:
            case ast.ImportFrom(module=module, names=names):
                found |= {str(module), *(each.name for each in names)}
            case ast.Import(names=names):
                found |= {each.name for each in names}
            case ast.Attribute(attr=attribute):
                found.add(attribute)
            case ast.keyword(arg=str(argument)):
                found.add(argument)
    return found


def main() -> None:
    for page in PAGES:
        text = page.read_text()
        page.write_text(DIFF.sub(lambda found: f"```diff\n{diff_of(found[2])}```", text))


if __name__ == "__main__":
    main()
