"""The public names: a promise, so a change of it is a change of this file."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import twopipes

PUBLIC = [
    "Annotations",
    "Audio",
    "AudioContent",
    "CallResult",
    "CallToolResult",
    "CancelToken",
    "CapabilityMissing",
    "Change",
    "ChannelBroken",
    "ChannelClosed",
    "Client",
    "ClientCapabilities",
    "ClientClosed",
    "ClientView",
    "Completion",
    "ConnectionLost",
    "Context",
    "CreateMessageResult",
    "ElicitResult",
    "Elicitation",
    "Elicited",
    "EmbeddedResource",
    "Err",
    "ExitStatus",
    "FormRejected",
    "GetPromptResult",
    "Icon",
    "Image",
    "ImageContent",
    "Implementation",
    "InputRequired",
    "InternalError",
    "InvalidOutput",
    "InvalidParams",
    "InvalidRequest",
    "Limits",
    "ListenFailed",
    "LocalProtocolError",
    "LogParams",
    "McpError",
    "MethodNotFound",
    "ModelHint",
    "ModelPreferences",
    "NotFound",
    "Ok",
    "OpeningFailed",
    "ProgressParams",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "QuestionFailed",
    "InputPolicy",
    "ReadResourceResult",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestTimedOut",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceTemplate",
    "RestartPolicy",
    "Result",
    "Root",
    "Sampling",
    "SamplingMessage",
    "Server",
    "ServerCapabilities",
    "ServerCommand",
    "ServerExited",
    "ServerSettings",
    "ShutdownPlan",
    "ShutdownReport",
    "SignatureRejected",
    "StartFailed",
    "StderrLine",
    "StrayOutput",
    "Subscription",
    "SubscriptionFilter",
    "TextContent",
    "Timeouts",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolError",
    "ToolResult",
    "ToolResultContent",
    "ToolUseContent",
    "TwopipesError",
    "UnknownContent",
    "UnsupportedRevision",
    "UrlsRequired",
    "UserRefused",
    "Validation",
    "EraCache",
    "__version__",
    "attempt",
    "connect",
]


def test_the_public_names_are_these():
    assert twopipes.__all__ == PUBLIC


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "__version__"])
def test_a_public_name_leads_to_what_it_names(name):
    found = getattr(twopipes, name)
    assert found.__name__ == name
    assert found.__module__ == twopipes._HOMES[name]
    assert getattr(twopipes, name) is found


def test_dir_shows_them_even_before_they_are_used():
    assert set(PUBLIC) <= set(dir(twopipes))
    assert "__version__" in dir(twopipes)
    assert dir(twopipes) == sorted(dir(twopipes))


def test_a_star_import_brings_exactly_them():
    namespace: dict = {}
    exec("from twopipes import *", namespace)
    assert sorted(namespace.keys() - {"__builtins__"}) == PUBLIC


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'twopipes' has no attribute 'Sever'"):
        _ = twopipes.Sever


def test_the_table_of_homes_and_the_imports_for_type_checkers_say_the_same():
    tree = ast.parse(Path(twopipes.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen_by_type_checkers = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen_by_type_checkers == twopipes._HOMES
    assert sorted(twopipes._HOMES) == twopipes.__all__


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter holds after a statement."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


def test_importing_the_package_loads_next_to_nothing():
    extra = loaded_by("import twopipes") - loaded_by("")
    assert extra == {"twopipes"}


def test_an_error_costs_no_parser():
    loaded = loaded_by("from twopipes import McpError")
    assert "twopipes.errors" in loaded
    assert not {"msgspec", "asyncio"} & loaded


def test_settings_bring_the_parser_and_no_event_loop():
    loaded = loaded_by("from twopipes import Limits")
    assert "msgspec" in loaded
    assert "asyncio" not in loaded
