"""Access tokens from our client to a handler of our server, over a socket, in both eras."""

import asyncio
import time

import pytest

from fake_server import scene
from http_server import serve_asgi
from jwt_issuer import AUDIENCE, ISSUER, publishing, token
from twopipes import Context, RestartPolicy, Server, connect
from twopipes.errors import HttpError
from twopipes.http import Auth, Challenge, Identity, JwtVerifier

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url():
    server = Server("guarded", version="1.0")

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.identity.subject} of {ctx.identity.client_id}"

    @server.tool
    def who_in_a_thread(ctx: Context) -> str:
        return ctx.identity.subject

    with publishing() as publisher:
        auth = Auth(JwtVerifier(publisher.url, issuer=ISSUER, audience=AUDIENCE), scopes=("use",))
        with serve_asgi(server.asgi(auth=auth)) as port:
            yield f"http://127.0.0.1:{port}/mcp"


def fresh(**claims):
    return token(scope="use", client_id="app", **claims)


@pytest.mark.parametrize("era", ["modern", "legacy"])
@scene
async def test_the_handler_sees_the_owner_of_the_token(url, era):
    async with connect(url, auth=fresh(), era=era) as client:
        assert (await client.call_tool("who")).text == "ada of app"
        assert (await client.call_tool("who_in_a_thread")).text == "ada"


@pytest.mark.parametrize("era", ["auto", "modern", "legacy"])
@pytest.mark.parametrize(
    ("auth", "status"),
    [(None, 401), ("invented", 401), (lambda: fresh(exp=1), 401), (token, 403)],
    ids=["none", "invented", "expired", "scope"],
)
@scene
async def test_a_client_without_a_valid_token_learns_why(url, auth, status, era):
    with pytest.raises(HttpError) as caught:
        async with connect(url, auth=auth, era=era):
            pass
    assert caught.value.status == status
    assert "/.well-known/oauth-protected-resource/mcp" in caught.value.challenges[0]


@pytest.mark.parametrize("era", ["modern", "legacy"])
@scene
async def test_a_token_that_expires_is_replaced(url, era):
    """The client signs in again when the server refuses its token, and the call goes through."""

    class SignIn:
        def __init__(self):
            self.challenges: list[Challenge] = []
            self.first = "expired-token"

        def __call__(self):
            return self.first

        async def challenge(self, challenge):
            self.challenges.append(challenge)
            return fresh()

    sign_in = SignIn()
    async with connect(url, auth=sign_in, era=era) as client:
        results = await asyncio.gather(*(client.call_tool("who") for _ in range(10)))
    assert {result.text for result in results} == {"ada of app"}
    assert len(sign_in.challenges) == 1
    assert sign_in.challenges[0].resource_metadata == url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")


@scene
async def test_a_session_goes_on_with_a_new_token_of_the_same_user_only(url):
    tokens = [fresh()]
    async with connect(url, auth=lambda: tokens[-1], era="legacy") as client:
        assert (await client.call_tool("who")).text == "ada of app"
        tokens.append(fresh(jti="renewed"))
        assert (await client.call_tool("who")).text == "ada of app"
        tokens.append(fresh(sub="eve"))
        # The session of ada is unknown to eve, so the client opens another one.
        assert (await client.call_tool("who")).text == "eve of app"


@scene
async def test_a_subscription_is_opened_again_with_a_new_token_when_the_old_one_expires():
    server = Server("guarded", version="1.0")
    shown: list[str] = []

    @server.tool
    def noop() -> None:
        """Do nothing."""

    async def verify(token):
        shown.append(token)
        return Identity("ada", expires=time.time() + (0.3 if token == "token-1" else 3600))

    tokens = ["token-1"]
    soon = RestartPolicy(first_delay=0.0, jitter=0.0)
    with serve_asgi(server.asgi(auth=verify)) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with connect(url, auth=lambda: tokens[0], restart=soon) as client, client.subscribe(tools=True) as changes:
            await changes.ready()
            tokens[0] = "token-2"
            while shown[-1] != "token-2":
                assert (await anext(changes)).kind == "tools"  # it may have missed changes
    assert shown[0] == "token-1"
