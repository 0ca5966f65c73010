"""A folder as resources: its files are listed and read, and nothing outside of it is (section RS)."""

import os
import sys
from pathlib import Path

import pytest

from inmemory import ALL, ERAS, LATEST_MODERN, LEGACY, MODERN, Client, play
from open_files import open_files
from systems import WINE
from twopipes import Server
from twopipes._server.pagination import cursor_of
from twopipes.errors import LocalProtocolError

NOT_FOUND = {**dict.fromkeys(LEGACY, -32002), **dict.fromkeys(MODERN, -32602)}


def text_of(result):
    (content,) = result["contents"]
    return content["text"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "sub" / "deeper").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "a.txt").write_text("alpha", encoding="utf-8")
    (root / "b.bin").write_bytes(b"\xff\x00")
    (root / "with space & ü.md").write_text("odd", encoding="utf-8")
    (root / "%2e%2e").write_text("literally", encoding="utf-8")
    (root / "sub" / "c.txt").write_text("gamma", encoding="utf-8")
    (root / "sub" / "deeper" / "d.txt").write_text("delta", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("SECRET", encoding="utf-8")
    (tmp_path / "docs-too").mkdir()
    (tmp_path / "docs-too" / "secret.txt").write_text("SECRET", encoding="utf-8")
    if WINE:  # its links are empty folders
        (root / "in").write_text("alpha", encoding="utf-8")
        return root
    (root / "out").symlink_to(tmp_path / "secret.txt")
    (root / "outdir").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    (root / "in").symlink_to(root / "a.txt")
    return root


def docs(folder: Path) -> Server:
    server = Server("s")
    server.add_directory("file:///docs", folder, name="docs", description="What we wrote")
    return server


@pytest.mark.parametrize("revision", ALL)
def test_the_files_of_a_folder_are_listed_and_read(folder, revision):
    """RS-01, RS-02, RS-08: each listed one can be read by the address it is listed under, and no link out is."""

    async def scenario(client: Client):
        listed = (await client.result("resources/list"))["resources"]
        names = {each["name"]: each for each in listed}
        assert list(names) == sorted(["a.txt", "b.bin", "with space & ü.md", "%2e%2e", "in", "sub/c.txt", "sub/deeper/d.txt"])
        assert names["a.txt"]["mimeType"] == "text/plain"
        assert names["a.txt"]["size"] == 5
        for each in listed:
            (content,) = (await client.result("resources/read", uri=each["uri"]))["contents"]
            assert content["uri"] == each["uri"]
            assert ("blob" in content) is (each["name"] == "b.bin")
        assert text_of(await client.result("resources/read", uri="file:///docs/sub/deeper/d.txt")) == "delta"
        assert text_of(await client.result("resources/read", uri=names["with space & ü.md"]["uri"])) == "odd"
        (template,) = (await client.result("resources/templates/list"))["resourceTemplates"]
        assert template["uriTemplate"] == "file:///docs/{+path}"
        assert (template["name"], template["description"]) == ("docs", "What we wrote")

    play(docs(folder), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_a_folder_is_read_as_the_addresses_of_what_is_in_it(folder, revision):
    """RS-02: no matter how large the files are. What leads out of it is not in it (RS-08)."""

    async def scenario(client: Client):
        for uri in ("file:///docs/sub", "file:///docs/sub/"):
            (content,) = (await client.result("resources/read", uri=uri))["contents"]
            assert (content["uri"], content["mimeType"]) == (uri, "text/uri-list")
            assert content["text"] == "file:///docs/sub/c.txt\r\nfile:///docs/sub/deeper/\r\n"
        for uri in ("file:///docs", "file:///docs/"):
            assert text_of(await client.result("resources/read", uri=uri)).split() == [
                "file:///docs/%252e%252e",
                "file:///docs/a.txt",
                "file:///docs/b.bin",
                "file:///docs/empty/",
                "file:///docs/in",
                "file:///docs/sub/",
                "file:///docs/with%20space%20%26%20%C3%BC.md",
            ]
        assert text_of(await client.result("resources/read", uri="file:///docs/empty")) == "# This folder is empty.\r\n"

    play(docs(folder), scenario, revision)


def test_the_listing_of_a_large_folder_says_where_it_goes_on(folder, monkeypatch):
    monkeypatch.setattr("twopipes._server.directory._PAGE", 3)
    monkeypatch.setattr("twopipes._server.directory._BATCH", 2)

    async def scenario(client: Client):
        pages = []
        uri = "file:///docs"
        while uri:
            *lines, last = text_of(await client.result("resources/read", uri=uri)).splitlines()
            goes_on = lines[-1:] == ["# There are more. Read this for the next ones:"]
            uri = last if goes_on else ""
            pages.append(len(lines[:-1] if goes_on else [*lines, last]))
        assert pages == [3, 3, 1]
        assert (await client.error("resources/read", uri="file:///docs/a.txt/?after=x"))["code"] == -32602

    play(docs(folder), scenario)


def test_a_file_that_is_too_large_is_refused_with_what_to_do(folder):
    (folder / "large.bin").write_bytes(b"x" * 101)
    (folder / "fits.bin").write_bytes(b"x" * 100)
    server = Server("s")
    server.add_directory("file:///docs", folder, max_size=100)

    async def scenario(client: Client):
        error = await client.error("resources/read", uri="file:///docs/large.bin")
        assert error["code"] == -32602
        assert "has 101 bytes or more, and at most 100 can be read at once" in error["message"]
        assert "max_size" in error["message"]
        assert len(text_of(await client.result("resources/read", uri="file:///docs/fits.bin"))) == 100

    play(server, scenario)


def test_a_file_that_grows_while_it_is_read_ends_at_the_limit(folder, monkeypatch):
    """Also one that the system makes up as it is read, which has no size."""
    server = Server("s")
    server.add_directory("file:///docs", folder, max_size=100)
    monkeypatch.setattr("twopipes._server.directory.os.read", lambda _descriptor, _size: b"more ")

    async def scenario(client: Client):
        error = await client.error("resources/read", uri="file:///docs/a.txt")
        assert "has 105 bytes or more" in error["message"]

    play(server, scenario)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_are_followed_within_the_folder_only(folder, tmp_path):
    """RS-08: step by step, whatever they are made of."""
    (tmp_path / "other-name").symlink_to(folder)
    (folder / "sub" / "up").symlink_to("../a.txt")
    (folder / "sub" / "up-and-down").symlink_to("../sub/./deeper//../c.txt")
    (folder / "sub" / "over-a-link").symlink_to("to-deeper/../deeper/d.txt")
    (folder / "sub" / "to-deeper").symlink_to("deeper")
    (folder / "absolute").symlink_to(folder / "sub")
    (folder / "by-the-other-name").symlink_to(tmp_path / "other-name" / "a.txt")
    (folder / "top").symlink_to(".")
    (folder / "sub" / "too-far").symlink_to("../../secret.txt")
    (folder / "sub" / "out-and-in").symlink_to("../../docs/a.txt")
    (folder / "sub" / "deeper" / "out-by-a-link").symlink_to("../../top/../secret.txt")
    (folder / "absolute-out").symlink_to(tmp_path / "docs-too" / "secret.txt")
    (folder / "dangling").symlink_to("nowhere")
    for number in range(60):
        (folder / f"chain-{number}").symlink_to(f"chain-{number + 1}")
    (folder / "chain-60").symlink_to("a.txt")
    server = Server("s")
    server.add_directory("file:///docs", tmp_path / "other-name")

    async def scenario(client: Client):
        async def read(path):
            line = await client.request("resources/read", uri=f"file:///docs/{path}")
            return line["result"]["contents"][0]["text"] if "result" in line else None

        assert await read("sub/up") == "alpha"
        assert await read("sub/up-and-down") == "gamma"
        assert await read("sub/to-deeper/d.txt") == "delta"
        assert await read("sub/over-a-link") == "delta"
        assert await read("absolute/c.txt") == "gamma"
        assert await read("by-the-other-name") == "alpha"
        assert await read("top/top/a.txt") == "alpha"
        assert await read("chain-50") == "alpha"
        outside = ["sub/too-far", "sub/out-and-in", "sub/deeper/out-by-a-link", "absolute-out", "dangling", "chain-0"]
        assert [await read(path) for path in outside] == [None] * len(outside)
        listed = await client.names("resources/list", "resources")
        assert "file:///docs/sub/up" in listed
        assert not {f"file:///docs/{path}" for path in outside} & set(listed)

    play(server, scenario)


def test_what_was_read_is_not_left_open(folder):
    async def scenario(client: Client):
        for name in ("in", "out", "loop", "missing", "outdir/secret.txt", "sub", "sub/c.txt"):
            await client.request("resources/read", uri=f"file:///docs/{name}")
        with (folder / "a.txt").open():
            assert folder / "a.txt" in open_files(folder.parent)
        assert not open_files(folder.parent)

    play(docs(folder), scenario, LATEST_MODERN)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such folders there")
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_on_the_way_need_not_be_readable(folder):
    (folder / "sub").chmod(0o100)
    try:

        async def scenario(client: Client):
            assert text_of(await client.result("resources/read", uri="file:///docs/sub/c.txt")) == "gamma"

        play(docs(folder), scenario)
    finally:
        (folder / "sub").chmod(0o700)


ESCAPES = [
    "file:///docs/../secret.txt",
    "file:///docs/sub/../../secret.txt",
    "file:///docs/sub//c.txt",
    "file:///docs/%2e%2e/secret.txt",
    "file:///docs/%2E%2E/secret.txt",
    "file:///docs/.%2e/secret.txt",
    "file:///docs/%2e%2e%2fsecret.txt",
    "file:///docs/..%2Fsecret.txt",
    "file:///docs/..%5Csecret.txt",
    "file:///docs/..\\secret.txt",
    "file:///docs/%252e%252e/secret.txt",
    "file:///docs/./a.txt",
    "file:///docs/a.txt%00",
    "file:///docs/a.txt\0.png",
    "file:///docs//etc/passwd",
    "file:///docs/%2Fetc%2Fpasswd",
    "file:///docs/out",
    "file:///docs/outdir/secret.txt",
    "file:///docs/outdir",
    "file:///docs/outdir/docs-too/secret.txt",
    "file:///docs/loop",
    "file:///docs-too/secret.txt",
    "file:///docs/%FF",
    "file:///docs/" + "a/" * 3000,
    "file:///docs/" + "a" * 5000,
    "file:///docs/a.txt/b",
    "file:///docs/a.txt?x",
    "file:///secret.txt",
    "file:///docs/~root/.profile",
    "file://other/docs/a.txt",
]


@pytest.mark.parametrize("revision", ERAS)
def test_no_address_leads_out_of_the_folder(folder, revision):
    """RS-08: not found, and the response does not reveal what is outside."""

    async def scenario(client: Client):
        for uri in ESCAPES:
            line = await client.request("resources/read", uri=uri)
            assert "result" not in line, uri
            assert line["error"]["code"] == NOT_FOUND[revision], uri
        assert "SECRET" not in str(client.lines)

    play(docs(folder), scenario, revision)


def test_what_is_still_encoded_after_decoding_once_is_a_name(folder):
    """RS-08."""

    async def scenario(client: Client):
        assert text_of(await client.result("resources/read", uri="file:///docs/%252e%252e")) == "literally"

    play(docs(folder), scenario)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files there")
def test_a_pipe_in_the_folder_is_not_a_file(folder):
    """RS-08: it would be read for ever."""
    os.mkfifo(folder / "pipe")

    async def scenario(client: Client):
        assert "file:///docs/pipe" not in await client.names("resources/list", "resources")
        assert (await client.error("resources/read", uri="file:///docs/pipe"))["code"] == -32602

    play(docs(folder), scenario)


@pytest.mark.skipif(sys.platform != "linux", reason="there are no such files elsewhere")
def test_files_that_the_system_makes_up_are_read_and_its_links_lead_out():
    """RS-08: they have no size, and /proc/self/root is the whole disk."""
    server = Server("s")
    server.add_directory("proc:///", "/proc/self")

    async def scenario(client: Client):
        assert text_of(await client.result("resources/read", uri="proc:///status")).startswith("Name:")
        for path in ("root/etc/passwd", "cwd", "exe", "root/"):
            assert (await client.error("resources/read", uri=f"proc:///{path}"))["code"] == -32602

    play(server, scenario)


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes there")
def test_a_name_that_is_not_utf8_is_listed_and_read(folder):
    (folder / os.fsdecode(b"\xe9t\xe9.txt")).write_text("summer", encoding="utf-8")

    async def scenario(client: Client):
        (uri,) = [uri for uri in await client.names("resources/list", "resources") if "%E9" in uri]
        assert text_of(await client.result("resources/read", uri=uri)) == "summer"

    play(docs(folder), scenario)


def test_a_name_that_no_file_of_the_system_can_have_is_not_found(folder):
    """On Windows names are text, and these bytes are not."""

    async def scenario(client: Client):
        assert (await client.error("resources/read", uri="file:///docs/%FF"))["code"] == -32602

    play(docs(folder), scenario)


FILES = ["%2e%2e", "a.txt", "b.bin", "in", "sub/c.txt", "sub/deeper/d.txt", "with space & ü.md"]


async def pages_of(client: Client) -> list[list[str]]:
    pages = []
    params = {}
    while True:
        result = await client.result("resources/list", **params)
        pages.append([each["name"] for each in result["resources"]])
        if "nextCursor" not in result:
            return pages
        params = {"cursor": result["nextCursor"]}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_the_files_of_folders_are_listed_page_by_page(folder, tmp_path, monkeypatch, size, batch):
    """PG-01: each of them once, after the resources that have a function, however the pages are cut."""
    monkeypatch.setattr("twopipes._server.directory._BATCH", batch)
    server = Server("s", page_size=size)
    server.add_resource("file:///docs/a.txt", lambda: "of its own", name="own")
    server.add_resource("other://x", lambda: "x", name="other")
    server.add_directory("file:///docs", folder)
    server.add_directory("file:///docs/sub", folder / "sub")
    server.add_directory("file:///more", tmp_path / "docs-too")

    async def scenario(client: Client):
        pages = await pages_of(client)
        assert [name for page in pages for name in page] == [
            "own",
            "other",
            *(name for name in FILES if name != "a.txt"),
            "secret.txt",
        ]
        assert all(len(page) <= size for page in pages)

    play(server, scenario)


def test_a_list_of_files_has_pages_where_the_server_sets_no_size(folder, monkeypatch):
    """PG-01."""
    monkeypatch.setattr("twopipes._server.directory._PAGE", 3)

    async def scenario(client: Client):
        assert await pages_of(client) == [FILES[:3], FILES[3:6], FILES[6:]]

    play(docs(folder), scenario)


def test_a_page_ends_where_nothing_but_folders_is_found(folder, monkeypatch):
    monkeypatch.setattr("twopipes._server.directory._MAX_SCANNED", 4)
    for number in range(9):
        (folder / f"e{number}" / "empty").mkdir(parents=True)

    async def scenario(client: Client):
        pages = await pages_of(client)
        assert [name for page in pages for name in page] == FILES
        assert [] in pages

    play(docs(folder), scenario)


def test_a_page_continues_after_a_removed_file(folder):
    """PG-05, CH-09."""
    server = Server("s", page_size=2)
    server.add_directory("file:///docs", folder)

    async def scenario(client: Client):
        first = await client.result("resources/list")
        (folder / "a.txt").unlink()
        (folder / "in").unlink()
        second = await client.result("resources/list", cursor=first["nextCursor"])
        assert [each["name"] for each in second["resources"]] == ["b.bin", "sub/c.txt"]
        made_up = ["file:///docs/\nfile:///docs/../x", "file:///gone/\nfile:///gone/x"]
        for cursor in ("bogus", "", *(cursor_of(name, kind) for name in made_up for kind in ("files", "resources"))):
            assert (await client.error("resources/list", cursor=cursor))["code"] == -32602

    play(server, scenario)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_may_not_be_read_is_not_found(folder):
    (folder / "a.txt").chmod(0)

    async def scenario(client: Client):
        assert (await client.error("resources/read", uri="file:///docs/a.txt"))["code"] == -32602

    play(docs(folder), scenario)


def test_a_file_that_vanishes_is_not_found(folder, monkeypatch):
    def vanish(*_: object) -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr("twopipes._server.directory.os.read", vanish)

    async def scenario(client: Client):
        assert (await client.error("resources/read", uri="file:///docs/a.txt"))["code"] == -32602

    play(docs(folder), scenario)


def test_only_a_folder_can_be_served(folder):
    with pytest.raises(LocalProtocolError, match="is not a folder"):
        Server("s").add_directory("file:///x", folder / "a.txt")
