"""URI templates: matching and errors (RS-01, RS-08, RS-09)."""

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._protocol.uri_template import TemplateRejected, UriTemplate
from twopipes.errors import TwopipesError

# By operator: what comes first, what separates values, and whether the names are written (RFC 6570, appendix A).
OPERATORS = {
    "": ("", ",", False),
    "+": ("", ",", False),
    "#": ("#", ",", False),
    ".": (".", ".", False),
    "/": ("/", "/", False),
    ";": (";", ";", True),
    "?": ("?", "&", True),
    "&": ("&", "&", True),
}


def expand(template: str, values: dict[str, str]) -> str:
    """Replace the variables by values, as a client does; a variable without a value is omitted."""

    def expression(found: re.Match[str]) -> str:
        first, separator, is_named = OPERATORS[found[1]]
        pieces = []
        for name in found[2].split(","):
            plain = name.removesuffix("*")
            if plain in values:
                safe = ":/?#[]@!$&'()*+,;=" if found[1] in {"+", "#"} else "/" if plain != name else ""
                value = quote(values[plain], safe=safe)
                pieces.append(f"{plain}={value}" if is_named else value)
        return first + separator.join(pieces) if pieces else ""

    return re.sub(r"\{([+#./;?&]?)([^}]*)\}", expression, template)


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("greeting://{name}", "greeting://bob", {"name": "bob"}),
        ("greeting://{name}", "greeting://J%C3%BCrgen%20M", {"name": "Jürgen M"}),
        ("greeting://{name}/card", "greeting://bob/card", {"name": "bob"}),
        ("r://{owner}/{repo}/blob/{+path}", "r://o/r/blob/a/b.py", {"owner": "o", "repo": "r", "path": "a/b.py"}),
        ("file:///{+dir}/{name}", "file:///a/b/c", {"dir": "a/b", "name": "c"}),
        ("file:///{dir*}/{name}", "file:///a/b/c", {"dir": "a/b", "name": "c"}),
        ("file:///{path*}", "file:///a/b/c", {"path": "a/b/c"}),
        ("a:{+p}-{v}/{n}", "a:x/y-z-1/q", {"p": "x/y-z", "v": "1", "n": "q"}),
        ("a:{+p}.{ext}", "a:x/y.tar.gz", {"p": "x/y.tar", "ext": "gz"}),
        ("a:{+p}/raw{?q}", "a:x/raw/raw?q=a/b", {"p": "x/raw", "q": "a/b"}),
        ("a:{+p}/x?f=1{&q}", "a:u/v/x?f=1&q=2", {"p": "u/v", "q": "2"}),
        ("a:{+p}{/id}", "a:u/v/7", {"p": "u/v", "id": "7"}),
        ("a:{+p}{#f}", "a:u/v#w/x", {"p": "u/v", "f": "w/x"}),
        ("a:{+one}/{+two}", "a:u/v/w", {"one": "u", "two": "v/w"}),
        ("a:{+one,two}", "a:u/v,w", {"one": "u/v", "two": "w"}),
        ("x:{a}{/b*}", "x:1/2/3", {"a": "1", "b": "2/3"}),
        ("a:{/x,y}", "a:/1/2", {"x": "1", "y": "2"}),
        ("a:{x,y}", "a:1,2", {"x": "1", "y": "2"}),
        ("a:b{.ext}", "a:b.txt", {"ext": "txt"}),
        ("a:b{;v,w}", "a:b;v=1;w=2", {"v": "1", "w": "2"}),
        ("a:b{#f}", "a:b#c/d", {"f": "c/d"}),
        ("a:{x}.txt", "a:b.txt.txt", {"x": "b.txt"}),
        ("db://{t}{?limit,offset}", "db://x?limit=1&offset=2", {"t": "x", "limit": "1", "offset": "2"}),
        ("db://{t}{?limit,offset}", "db://x?offset=2", {"t": "x", "offset": "2"}),
        ("db://{t}{?limit,offset}", "db://x", {"t": "x"}),
        ("db://t{?q}", "db://t?q=", {"q": ""}),
        ("db://t{?q}#end", "db://t?q=1#end", {"q": "1"}),
        ("db://t?v=1{&q}", "db://t?v=1&q=2", {"q": "2"}),
        ("{scheme}:x", "a:x", {"scheme": "a"}),
        ("config://app", "config://app", {}),
    ],
)
def test_a_template_matches_the_uri_that_its_values_expand_to(template, uri, values):
    """RS-01."""
    assert UriTemplate(template).match(uri) == values
    assert expand(template, values).replace("%2F", "/") == uri


def test_the_names_of_a_query_may_be_in_any_order():
    assert UriTemplate("a:x{?b,c}").match("a:x?c=1&b=2") == {"b": "2", "c": "1"}


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("greeting://{name}", "greeting://"),
        ("greeting://{name}", "greetings://bob"),
        ("greeting://{name}", "greeting://a/b"),
        ("greeting://{name}", "greeting://a?b"),
        ("greeting://{name}/card", "greeting://bob/cards"),
        ("a:{x,y}", "a:1"),
        ("a:b{;v}", "a:b;w=1"),
        ("a:{+p}/{n}", "a:n"),
        ("a:{+p}/{n}", "a:/n"),
        ("a:{+p}xy/{n}", "a:y/n"),
        ("a:{+p}.{e}", "a:b/c"),
        ("db://t{?q}", "db://t?q=1&r=2"),
        ("db://t{?q}", "db://t?q=1&q=2"),
        ("db://t{?q}", "db://t?q=%ff"),
        ("db://t{?q}", "db://tx"),
        ("config://app", "config://app/"),
    ],
)
def test_another_uri_does_not_match(template, uri):
    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize("uri", ["a:%00", "a:x\0", "a:%", "a:%2", "a:%zz", "a:%ff", "a:%ed%a0%80"])
def test_a_uri_that_cannot_be_decoded_does_not_match(uri):
    """RS-08: NUL, invalid percent-encoding, bytes that are not UTF-8."""
    for template in ("a:{x}", "a:{+x}", "a:{x*}"):
        assert UriTemplate(template).match(uri) is None


def test_values_are_decoded_once_and_are_untrusted():
    """RS-08: a value such as ``..`` is returned decoded; code that builds a path must reject it."""
    template = UriTemplate("file:///{name}")
    assert template.match("file:///..%2Fetc") == {"name": "../etc"}
    assert template.match("file:///%2e%2e") == {"name": ".."}
    assert template.match("file:///%252e") == {"name": "%2e"}
    assert template.match("file:///../etc") is None


@pytest.mark.parametrize(
    ("template", "position", "why"),
    [
        ("a:{x", 2, "never closed"),
        ("a:{}", 3, "not the name"),
        ("a:{x y}", 3, "not the name"),
        ("a:{x,}", 5, "not the name"),
        ("a:{x:3}", 3, "prefix"),
        ("a:{=x}", 3, "reserved"),
        ("a:{x}{y}", 5, "between the two expressions"),
        ("a:{x}/{x}", 6, "appears twice"),
        ("a:{?x*}", 4, "cannot be exploded"),
        ("a:{?x}{&y}", 6, "one expression"),
        ("a:{?x}/y", 2, "only a fragment may follow"),
        ("a:{?x}{/y}", 6, "only a fragment may follow"),
        ("a:}", 2, "is not allowed here"),
        ("a:b c{x}", 3, "is not allowed here"),
        ("a:%zz", 2, "is not allowed here"),
        ("", 0, "scheme"),
        ("notes/{x}", 0, "scheme"),
    ],
)
def test_an_error_names_the_template_and_the_position(template, position, why):
    """RS-09: a template that cannot give a URI is rejected when it is created."""
    with pytest.raises(TemplateRejected) as caught:
        UriTemplate(template)
    assert caught.value.position == position
    assert why in str(caught.value)
    assert repr(template) in str(caught.value)
    assert isinstance(caught.value, TwopipesError)


def test_the_variables_of_a_template_are_known():
    assert UriTemplate("a:{x}{?y}").variables == ("x", "y")


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(TEXTS, TEXTS, TEXTS)
def test_any_values_survive_expanding_and_matching(one, two, three):
    """For values that do not contain the separators of the template."""
    for text in ("a:{x}/{y}{?z}", "a:{x,y}{#z}", "a:{/x,y}{;z}", "a:b?c{&x,y,z}", "a:{x}/{y}/{+z}", "a:{x}?{y}{#z}"):
        values = {"x": one, "y": two, "z": three}
        assert UriTemplate(text).match(expand(text, values)) == values


@given(st.text(st.sampled_from("ab/?#%25.,&=+;:")), st.sampled_from(["a:{x}", "a:{+x}/{y}", "a:{x*}{?y}", "a:{x}{/y}.b{#z}"]))
def test_matched_values_expand_to_an_equivalent_uri(text, template):
    """For any URI that matches, the values expand to a URI that gives the same values."""
    found = UriTemplate(template).match("a:" + text)
    if found is not None:
        again = UriTemplate(template).match(expand(template, found))
        assert again == found or any(each in value for value in found.values() for each in "/?#.")


def test_a_hostile_uri_is_matched_in_linear_time():
    """RS-08: with backtracking this would never end."""
    template = UriTemplate("a:{+a}x{b}x{c}x{d}x{e}/{+f}x/y")
    assert template.match("a:" + "x" * 200_000) is None
    assert template.match("a:" + "x/" * 200_000) is None
