"""Run the commands of the console blocks of the documentation, and write their output below them.

    python tools/console [PAGE ...]             every page, or these; rewrites what differs
    python tools/console --check [PAGE ...]     changes nothing; ends with 1 where a page shows what is not said
    python tools/console --check --quick        without the blocks that take long

``console_pages.py`` explains how a block is marked. What always differs (times, process ids, folders, versions) is listed in
``console_sameness.py``; a block that differs in nothing else is left as it is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from console_pages import CUT, Block, PageFault, Step, blocks, faults, name, pages, rewritten
from console_sameness import comparable, difference, is_same
from console_sandbox import CommandFailed, Said, Sandbox, serves

from twopipes import __version__


class Finding(NamedTuple):
    """A block whose text differs from the output."""

    block: Block
    what: str  # for people
    body: list[str]  # as it should be

    @property
    def was_cut(self) -> bool:
        """Whether a person must shorten it again."""
        return any(line.strip() in CUT for line in self.block.body)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(prog="python tools/console", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="all, unless given")
    parser.add_argument("--check", action="store_true", help="change nothing, and end with 1 where something differs")
    parser.add_argument("--quick", action="store_true", help="leave out what is marked as slow")
    options = parser.parse_args(arguments)
    wrong = 0
    for page in [page.resolve() for page in options.pages] or pages():
        if told := faults(page):
            print(*told, sep="\n")
            wrong += len(told)
            continue
        try:
            found = findings(page, quick=options.quick)
        except (CommandFailed, PageFault) as failure:
            print(f"{name(page)}: {failure}")
            wrong += 1
            continue
        for each in found:
            print(f"{name(page)}: line {each.block.line}: {each.what}")
            if each.was_cut and not options.check:
                print("  it had been cut; what was left out stands there now: cut it again")
        wrong += len(found)
        if found and not options.check:
            text = rewritten(page.read_text(encoding="utf-8"), {each.block.line: each.body for each in found})
            page.write_text(text, encoding="utf-8")
    return 1 if wrong and options.check else 0


def findings(page: Path, *, quick: bool = False) -> list[Finding]:
    """Run the blocks of a page, and return those that differ from the output."""
    found = blocks(page.read_text(encoding="utf-8"))
    if not any(block.is_run and not (quick and "slow" in block.options) for block in found):
        return []
    # A short path, wherever temporary files are kept here: some commands wrap their lines before the path is made presentable.
    with tempfile.TemporaryDirectory(prefix="p", dir="/tmp", ignore_cleanup_errors=True) as folder:
        sandbox = Sandbox(Path(folder))
        try:
            return list(_findings(found, sandbox, quick=quick))
        finally:
            sandbox.close()


def _findings(found: Sequence[Block], sandbox: Sandbox, *, quick: bool) -> Iterator[Finding]:
    printed = _printed(found, sandbox)
    for number, block in enumerate(found):
        if not block.is_run or (quick and "slow" in block.options):
            continue
        if block.kind == "printed":
            above = max(earlier for earlier in range(number) if found[earlier].language == "python")
            yield from _compared(block, [(Step("", [], block.body), printed[above])])
        else:
            _prepare(block, found[:number], sandbox)
            steps = block.steps()
            ran = [(step, _ran(block, step, sandbox)) for step in steps if not block.why_not_run(step.command)]
            if block.option("output") == "none" or block.language == "sh":
                yield from _judged_by_their_ends(block, ran)
            else:
                yield from _compared(block, [(step, said.lines) for step, said in ran])


def _printed(found: Sequence[Block], sandbox: Sandbox) -> dict[int, list[str]]:
    """Return what the Python blocks print, by position; they run only if a block shows it."""
    wanted = [number for number, block in enumerate(found) if block.kind == "printed"]
    if not wanted:
        return {}
    sources = [number for number, block in enumerate(found[: wanted[-1]]) if block.language == "python"]
    said = sandbox.python(["\n".join(found[number].body) + "\n" for number in sources])
    return dict(zip(sources, said, strict=True))


def _prepare(block: Block, above: Sequence[Block], sandbox: Sandbox) -> None:
    for each in block.options.get("in", []):
        sandbox.enter(each)
    for each in block.options.get("env", []):
        sandbox.set(each)
    for each in block.options.get("files", []):
        sandbox.copy(each)
    for each in block.options.get("python", []):
        programs = ["\n".join(earlier.body) for earlier in above if earlier.language == "python"]
        words = each.split()
        text = {"first": programs[0], "last": programs[-1]}.get(words[0], "\n\n".join(programs))
        (sandbox.folder / words[-1]).write_text(text + "\n", encoding="utf-8")
    for each in block.options.get("launcher", []):
        sandbox.add_launchers(each.split())
    for each in block.options.get("instead", []):
        sandbox.replace(*each.split(" => ", 1))
    for each in block.options.get("before", []):
        sandbox.run_hidden(each)
    for each in block.options.get("serve", []):
        if (said := sandbox.serve(each)).code:
            raise CommandFailed(f"{each!r} ended with {said.code}:\n" + "\n".join(said.lines))


def _ran(block: Block, step: Step, sandbox: Sandbox) -> Said:
    host = block.option("host")
    kind = serves(step.command)
    if kind == "address":
        return sandbox.serve(step.command)
    command = f"{host} {step.command}" if host and kind == "stdio" else step.command
    types = [line.strip() for line in block.option("types").split("|")] if "types" in block.options else []
    return sandbox.run(command, terminal=int(block.option("terminal", "0")), types=types, interrupt=block.option("interrupt"))


def _judged_by_their_ends(block: Block, ran: Sequence[tuple[Step, Said]]) -> Iterator[Finding]:
    wanted = [int(word) for word in block.option("exits").split()] or [0] * len(ran)
    for (step, said), code in zip(ran, wanted, strict=True):
        if said.code != code:
            told = "\n    ".join(said.lines[-20:])
            yield Finding(block, f"{step.command} ended with {said.code}, not with {code}:\n    {told}", block.body)


def _compared(block: Block, ran: Sequence[tuple[Step, list[str]]]) -> Iterator[Finding]:
    rules = {
        "version": __version__,
        "varies": block.options.get("varies", []),
        "unordered": block.options.get("unordered", []),
    }
    body: list[str] = []
    told: list[str] = []
    for step, said in ran:
        shown = comparable(step.shown, **rules)
        now = comparable(said, **rules)
        same = is_same(shown, now)
        body += [*step.written, *(step.shown if same else said)]
        if not same:
            told.append(f"{step.command or 'what the Python above prints'}\n{difference(shown, now)}")
    if told:
        yield Finding(block, "\n".join(told), body)


if __name__ == "__main__":
    sys.exit(main())
