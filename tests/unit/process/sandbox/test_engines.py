"""How the engines are told what a server can see."""

import os
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("the engines exist on Linux only", allow_module_level=True)

from twopipes._process.command import ServerCommand
from twopipes._process.sandbox import launch
from twopipes._process.sandbox.bubblewrap import Bubblewrap, _mounts
from twopipes._process.sandbox.socket_filter import _ARCHITECTURES, filter_code, socket_filter
from twopipes._process.sandbox.view import View
from twopipes.settings import Sandbox


def view(**members):
    return View(**{"read": (), "write": (), "links": {}, "network": False, "folder": "/", "home": None} | members)


def read_descriptor(descriptor):
    with open(descriptor, "rb") as file:
        return file.read()


def test_options_are_passed_in_a_descriptor_and_the_command_is_not_changed():
    launch = Bubblewrap("/usr/bin/bwrap", ("--unshare-all",)).launch(view(folder="/usr", read=("/usr",)), ["/x", "--help", "-- "])
    (descriptor,) = launch.inherited
    assert launch.argv == ["/usr/bin/bwrap", "--args", str(descriptor), "--", "/x", "--help", "-- "]
    assert launch.is_monitor
    options = read_descriptor(descriptor).decode().split("\0")
    assert options[:1] == ["--unshare-all"]
    assert options[-5:] == ["--remount-ro", "/", "--chdir", "/usr", ""]
    assert "--share-net" not in options


def test_the_network_is_shared_only_on_request():
    sockets, options = Bubblewrap("/bwrap", ()).launch(view(network=True), ["/x"]).inherited
    assert f"--share-net\0--seccomp\0{sockets}\0".encode() in read_descriptor(options)
    assert read_descriptor(sockets) == socket_filter(except_internet=True)


def test_what_is_in_a_visible_folder_is_not_mounted_again(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    mounts = _mounts(view(read=(str(tmp_path), str(inner))))
    assert mounts[str(tmp_path)] == ("--ro-bind", str(tmp_path))
    assert str(inner) not in mounts


def test_a_writable_path_wins_over_a_readable_one(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    above = _mounts(view(read=(str(inner),), write=(str(tmp_path),)))
    assert above[str(tmp_path)] == ("--bind", str(tmp_path))
    assert str(inner) not in above
    below = _mounts(view(read=(str(tmp_path), str(inner)), write=(str(inner),)))
    assert below[str(inner)] == ("--bind", str(inner))


def test_private_folders_give_way_to_the_policy(tmp_path):
    mounts = _mounts(view(home=str(tmp_path), read=("/tmp",)))
    assert mounts["/tmp"] == ("--ro-bind", os.path.realpath("/tmp"))
    assert str(tmp_path) not in mounts
    assert _mounts(view(home="/home/somebody"))["/home/somebody"] == ("--tmpfs",)


def test_a_working_folder_that_is_hidden_is_empty():
    assert _mounts(view(folder="/srv/x"))["/srv/x"] == ("--dir",)


@pytest.mark.parametrize("machine", _ARCHITECTURES.values())
@pytest.mark.parametrize("families", [(), (2,), (2, 10, 16)])
def test_the_filter_decides_by_call_and_family(machine, families):
    """Run the filter as the kernel does."""
    allow, refuse, kill = 0x7FFF0000, 0x00050000, 0x80000000
    code = filter_code(machine, families)

    def verdict(number, first=0, second=0, architecture=machine.audit):
        return run_filter(code, {0: number, 4: architecture, 16: first, 24: second}) & 0xFFFF0000

    assert verdict(0) == verdict(1000) == allow
    assert verdict(0, architecture=0x40000003) == kill  # i386
    assert verdict(0x40000000 + machine.socket) == refuse  # x32
    assert verdict(425) == refuse  # io_uring_setup
    for family in (1, 2, 10, 16, 17, 40):
        assert verdict(machine.socket, family) == (allow if family in families else refuse)
    stream, datagram, nonblocking = 1, 2, 0o4000
    assert verdict(machine.socketpair, 1, stream) == verdict(machine.socketpair, 1, stream | nonblocking) == allow
    assert verdict(machine.socketpair, 1, datagram) == verdict(machine.socketpair, 1, datagram | nonblocking) == refuse


def run_filter(code, data):
    import struct  # noqa: PLC0415

    instructions = list(struct.iter_unpack("=HBBI", code))
    position = accumulator = 0
    while True:
        operation, if_true, if_false, operand = instructions[position]
        position += 1
        match operation:
            case 0x20:
                accumulator = data[operand]
            case 0x54:
                accumulator &= operand
            case 0x15:
                position += if_true if accumulator == operand else if_false
            case 0x35:
                position += if_true if accumulator >= operand else if_false
            case 0x06:
                return operand


@pytest.mark.parametrize(("platform", "name"), [("darwin", "macOS"), ("win32", "Windows"), ("freebsd14", "freebsd14")])
def test_other_systems_have_no_engine(monkeypatch, platform, name):
    monkeypatch.setattr(launch, "_FINDERS", {})
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(launch.Unusable, match=f"there is no supported engine on {name}, only on Linux"):
        launch._find_engine(Sandbox())


def test_the_policy_is_part_of_the_identity_and_shown():
    plain, confined = ServerCommand(["x"]), ServerCommand(["x"], sandbox=Sandbox(read=["/a"]))
    assert plain.identity() != confined.identity() != ServerCommand(["x"], sandbox=Sandbox(read=["/b"])).identity()
    assert "sandbox=Sandbox(read=('/a',)" in repr(confined)
