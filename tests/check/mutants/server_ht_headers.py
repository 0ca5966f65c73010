"""HTTP servers with one fault each, in the headers that repeat a request and in the statuses of errors."""

import json

from check.http_reference import Reference, error
from check.mutants.server_ht import mutant
from twopipes._http.headers import request_headers
from twopipes._protocol.revisions import META_VERSION, MODERN
from twopipes._tools.check.messages import members


def repaired(request, message, *names, schema=()):
    """Give a request the correct headers of some names, so that a wrong one is not noticed."""
    params = members(message.get("params"))
    version = members(params.get("_meta")).get(META_VERSION)
    correct = {name.lower(): value for name, value in request_headers(message["method"], params, version, schema).items()}
    kept = [(name, value) for name, value in request.headers if not name.lower().startswith(names)]
    request.headers = kept + [(name, value) for name, value in correct.items() if name.startswith(names)]


# Versions and statuses


@mutant("HT-52")
class RejectsVersionsWith200(Reference):
    def reject_version(self, message, reply, version):
        reply.json(error(message["id"], -32022, "Unsupported version", supported=list(MODERN), requested=version), 200)


@mutant("HT-52")
class RejectsVersionsWithAnotherError(Reference):
    def reject_version(self, message, reply, version):
        reply.json(error(message["id"], -32600, "Unsupported version"), 400)


@mutant("HT-52", revision="2025-11-25")
class ServesAnyVersion(Reference):
    def version_status(self, request):
        return 0

    def is_modern(self, request, message):
        return META_VERSION in members(members(message.get("params")).get("_meta"))


@mutant("HT-53")
class NeedsTheVersionInEveryRequest(Reference):
    def version_status(self, request):
        return 400 if request.header("MCP-Protocol-Version") is None else super().version_status(request)


@mutant("HT-54")
class DoesNotMissTheVersion(Reference):
    def mismatch(self, request, message):
        if request.header("MCP-Protocol-Version") is None:
            repaired(request, message, "mcp-protocol-version")
        return super().mismatch(request, message)


@mutant("HT-55")
class DoesNotCompareVersions(Reference):
    def mismatch(self, request, message):
        repaired(request, message, "mcp-protocol-version")
        return super().mismatch(request, message)


class WithStatus200(Reference):
    code = 0

    def status(self, line, request):
        return 200 if members(json.loads(line).get("error")).get("code") == self.code else super().status(line, request)


@mutant("HT-56")
class UnknownMethodsWith200(WithStatus200):
    code = -32601


@mutant("HT-57")
class MissingMetadataWith200(WithStatus200):
    code = -32602


@mutant("HT-58")
class MissingCapabilitiesWith200(WithStatus200):
    code = -32021


# Method, name and arguments


@mutant("HT-62")
class DoesNotCompareMethods(Reference):
    def mismatch(self, request, message):
        repaired(request, message, "mcp-method")
        return super().mismatch(request, message)


@mutant("HT-62")
class DoesNotMissTheMethod(Reference):
    def mismatch(self, request, message):
        if request.header("Mcp-Method") is None:
            repaired(request, message, "mcp-method")
        return super().mismatch(request, message)


@mutant("HT-63")
class DoesNotCompareNames(Reference):
    def mismatch(self, request, message):
        repaired(request, message, "mcp-name")
        return super().mismatch(request, message)


@mutant("HT-63")
class MismatchesWith200(Reference):
    async def post_modern(self, request, reply, message):
        if "id" in message and (why := self.mismatch(request, message)):
            reply.json(error(message["id"], -32020, why))
        else:
            await super().post_modern(request, reply, message)


@mutant("HT-64")
class DoesNotDecode(Reference):
    def mismatch(self, request, message):
        encoded = any(value.startswith("=?base64?") for _name, value in request.headers)
        return "the headers differ" if encoded else super().mismatch(request, message)


@mutant("HT-65")
class KnowsOneCaseOfNames(Reference):
    def mismatch(self, request, message):
        request.headers = [(name, value) for name, value in request.headers if name != name.upper()]
        return super().mismatch(request, message)


@mutant("HT-65")
class ComparesMethodsWithoutCase(Reference):
    def mismatch(self, request, message):
        if (request.header("Mcp-Method") or "").lower() == message["method"].lower():
            repaired(request, message, "mcp-method")
        return super().mismatch(request, message)


class ChangesTheSchema(Reference):
    before, after = b'"x-mcp-header":"Region"', b'"x-mcp-header":"Region"'

    def respond(self, request, reply, line):
        return super().respond(request, reply, line.replace(self.before, self.after))


@mutant("HT-66")
class HasASpaceInAHeaderName(ChangesTheSchema):
    after = b'"x-mcp-header":"The Region"'


@mutant("HT-66")
class HasTwoEqualHeaders(ChangesTheSchema):
    after = b'"x-mcp-header":"COUNT"'


@mutant("HT-66")
class HasAHeaderForANumber(ChangesTheSchema):
    before = b'"type":"integer","x-mcp-header"'
    after = b'"type":"number","x-mcp-header"'


@mutant("HT-73")
class DoesNotCompareArguments(Reference):
    def mismatch(self, request, message):
        repaired(request, message, "mcp-param-", schema=self.param_headers(message))
        return super().mismatch(request, message)


@mutant("HT-73")
class DoesNotMissArguments(Reference):
    def mismatch(self, request, message):
        schema = self.param_headers(message)
        if any(request.header(each.name) is None for each in schema):
            repaired(request, message, "mcp-param-", schema=schema)
        return super().mismatch(request, message)


@mutant("HT-74")
class NeedsHeadersOfMissingArguments(Reference):
    def mismatch(self, request, message):
        missing = any(request.header(each.name) is None for each in self.param_headers(message))
        return "a header is missing" if missing else super().mismatch(request, message)


@mutant("HT-75")
class AcceptsMalformedValues(Reference):
    def mismatch(self, request, message):
        if any(value == "=?base64?***?=" for _name, value in request.headers):
            repaired(request, message, "mcp-param-", schema=self.param_headers(message))
        return super().mismatch(request, message)


@mutant("HT-76")
class ComparesNumbersAsText(Reference):
    def mismatch(self, request, message):
        return "the headers differ" if request.header("Mcp-Param-Count") == "42.0" else super().mismatch(request, message)


@mutant("HT-77")
class RejectsUnknownArguments(Reference):
    def mismatch(self, request, message):
        known = {each.key for each in self.param_headers(message)}
        found = {name.lower() for name, _value in request.headers if name.lower().startswith("mcp-param-")}
        return "an unknown header" if found - known else super().mismatch(request, message)
