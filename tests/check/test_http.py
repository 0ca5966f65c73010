"""The check over HTTP: correct servers and clients have no findings, and a server that cannot be checked is reported."""

import socket

import pytest

from check.healthy import WAITS
from check.http_proxy import Proxy, through
from check.http_reference import Reference, ReferenceTarget
from check.runs import of_client, of_server, patiently, run
from twopipes._protocol.revisions import ALL, MODERN
from twopipes._rules.table import RULES, chosen
from twopipes._tools.check.http.target import HttpTarget
from twopipes._tools.check.http.wire import HttpExchange, parse_url
from twopipes.errors import ChannelBroken, LocalProtocolError

# The front end has a connection to the twin for each request, so a replayed retry is not noticed.
NOT_KEPT_BY_THE_FRONT_END = ["MR-17"]


class ModernOnly(Reference):
    speaks = MODERN


def failures(outcome):
    return [(each.rule.id, each.revision, each.probe, each.why) for each in outcome.failures]


def test_a_correct_server_has_no_findings():
    wanted = chosen(skip=NOT_KEPT_BY_THE_FRONT_END)
    outcome = patiently(lambda: of_server(ReferenceTarget(waits=WAITS), wanted=wanted))
    assert outcome.revisions == list(ALL)
    assert failures(outcome) == []


@pytest.mark.parametrize("revision", ALL[1:])
def test_a_correct_server_of_one_revision_keeps_the_rules_of_http(revision):
    outcome = patiently(lambda: of_server(ReferenceTarget(), revisions=[revision], wanted=chosen(["HT"])))
    assert outcome.revisions == [revision]
    assert failures(outcome) == []


def test_a_correct_server_passes_every_rule_of_http():
    outcome = patiently(lambda: of_server(ReferenceTarget(), wanted=chosen(["HT"])))
    assert failures(outcome) == []
    passed = {each.rule.id for each in outcome.verdicts if each.outcome == "passed"}
    judged = {
        rule.id for rule in RULES.values() if rule.section == "HT" and rule.binds("server") and not rule.why_untestable("server")
    }
    assert judged - passed == {"HT-47"}  # only for servers without legacy revisions


def test_a_correct_modern_server_has_no_findings():
    outcome = patiently(lambda: of_server(ReferenceTarget(ModernOnly), wanted=chosen(["HT"])))
    assert outcome.revisions == list(MODERN)
    assert failures(outcome) == []
    assert [verdict.outcome for verdict in outcome.of("HT-47")] == ["passed", "passed"]


def test_a_refused_connection_is_reported_at_once():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    with pytest.raises(ChannelBroken, match=f"{url} cannot be reached"):
        run(of_server(HttpTarget(url)))


@pytest.mark.parametrize("url", ["ftp://host/", "http:///mcp", "http://host:port/"])
def test_a_wrong_url_is_rejected(url):
    with pytest.raises(LocalProtocolError):
        parse_url(url)


def test_the_parts_of_a_url():
    address = parse_url("https://[::1]/mcp?key=1")
    assert (address.host, address.port, address.target, address.is_tls) == ("::1", 443, "/mcp?key=1", True)
    assert (address.authority, address.is_loopback) == ("[::1]:443", True)


def test_secrets_of_a_url_are_not_shown():
    target = HttpTarget("https://anna:secret@example.com:8443/mcp?token=secret")
    assert target.description == "https://example.com:8443/mcp"
    exchange = HttpExchange(
        target.address, "POST", {"Authorization": "Bearer secret", "X-Key": "secret", "Mcp-Method": "ping"}, b"{}"
    )
    assert list(exchange.sent) == [b"POST /mcp?... HTTP/1.1", b"Host: example.com:8443  Mcp-Method: ping", b"{}"]


def test_a_correct_client_passes_every_rule_of_http():
    outcome = patiently(lambda: of_client(through(Proxy), wanted=chosen(["HT"])))
    assert outcome.revisions == list(ALL)
    assert failures(outcome) == []
    passed = {each.rule.id for each in outcome.verdicts if each.outcome == "passed"}
    judged = {
        rule.id for rule in RULES.values() if rule.section == "HT" and rule.binds("client") and not rule.why_untestable("client")
    }
    assert judged == passed
