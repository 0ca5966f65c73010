import pytest

from twopipes._protocol.types import ClientCapabilities, Implementation, ServerCapabilities
from twopipes._session.identity import ClientProfile, ServerProfile
from twopipes.errors import LocalProtocolError

INFO = Implementation("n", "1")


@pytest.mark.parametrize("profile", [ServerProfile, ClientProfile])
@pytest.mark.parametrize(("revisions", "words"), [((), "got none"), (("2026-07-28", "1999-01-01"), "got 1999-01-01")])
def test_a_profile_that_speaks_nothing_known_is_refused_at_once(profile, revisions, words):
    with pytest.raises(LocalProtocolError, match=words):
        profile(info=INFO, revisions=revisions)


@pytest.mark.parametrize(("profile", "capabilities"), [(ServerProfile, ServerCapabilities), (ClientProfile, ClientCapabilities)])
def test_an_extension_without_a_prefix_is_refused_at_once(profile, capabilities):
    """CP-07: and not when the first peer asks."""
    assert profile(info=INFO, capabilities=capabilities(extensions={"com.example/x": {}}))
    with pytest.raises(LocalProtocolError, match="needs a prefix"):
        profile(info=INFO, capabilities=capabilities(extensions={"x": {}}))


@pytest.mark.parametrize(
    ("revisions", "eras"),
    [(("2026-07-28",), "modern"), (("2024-11-05",), "legacy"), (("2024-11-05", "2026-07-28"), "both")],
)
def test_the_eras_follow_from_the_revisions(revisions, eras):
    assert ServerProfile(info=INFO, revisions=revisions).eras == eras
    assert ClientProfile(info=INFO, revisions=revisions).eras == eras


def test_a_server_lists_its_newest_version_first():
    """CON-06."""
    assert ServerProfile(info=INFO, revisions=("2024-11-05", "2026-07-28")).supported_versions == ["2026-07-28", "2024-11-05"]
