"""How one server of a group is reached."""

import pytest

from twopipes._client.targets import CommandTarget, SocketTarget
from twopipes.errors import ConfigError, LocalProtocolError
from twopipes.host import ServerConfig
from twopipes.settings import Timeouts


def test_a_command_becomes_a_target_with_its_environment_and_folder(tmp_path):
    target = ServerConfig(command=["python", "server.py"], env={"A": "1"}, cwd=str(tmp_path), environment="inherit").target()
    assert isinstance(target, CommandTarget)
    assert target.command.argv == ("python", "server.py")
    assert target.command.env == {"A": "1"}
    assert target.command.folder() == str(tmp_path)
    assert target.command.environment == "inherit"


def test_a_socket_becomes_a_target():
    assert isinstance(ServerConfig(url="unix:/run/time.sock").target(), SocketTarget)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs either command= or url="),
        ({"command": ["a"], "url": "https://host/mcp"}, "needs either command= or url="),
        ({"command": []}, "at least one non-empty string"),
        ({"command": "python server.py"}, "must be a list of strings"),
        ({"command": ["a"], "headers": {"A": "1"}}, "headers= cannot be used with command="),
        ({"url": "https://host/mcp", "env": {"A": "1"}, "cwd": "/"}, "env= and cwd= cannot be used with url="),
    ],
)
def test_arguments_that_do_not_fit_together_are_rejected(given, message):
    with pytest.raises(LocalProtocolError, match=message):
        ServerConfig(**given)


def test_a_configuration_with_a_problem_has_no_target():
    config = ServerConfig(problem="time: there is no command")
    with pytest.raises(ConfigError, match="time: there is no command"):
        config.target()


def test_values_of_variables_and_headers_are_not_shown():
    config = ServerConfig(command=["a"], env={"TOKEN": "secret"}, timeouts=Timeouts(connect=3))
    assert repr(config) == (
        "ServerConfig(command=['a'], env={'TOKEN': '***'}, timeouts=Timeouts(connect=3, probe=5.0, request=60.0, total=600.0, "
        "shutdown=2.0))"
    )
    remote = ServerConfig(url="https://host/mcp?key=secret", headers={"Authorization": "secret"})
    assert "secret" not in f"{remote!r} {remote.__rich_repr__()}"


def test_equal_configurations_are_equal():
    """A running group restarts only servers whose configuration changed."""
    assert ServerConfig(command=["a", "b"]) == ServerConfig(command=("a", "b"))
