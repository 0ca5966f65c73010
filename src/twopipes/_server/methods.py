"""The methods of the protocol, served from what an author has registered."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from twopipes._protocol import types as t
from twopipes._server.context import Context
from twopipes._server.failures import failure_response
from twopipes._server.pagination import page_of
from twopipes._server.threads import Workers
from twopipes.errors import MethodNotFound, NotFound

if TYPE_CHECKING:
    from twopipes._server.app import Server
    from twopipes._server.function_entry import FunctionEntry

# By method: the name of a list, the member of its entries that is listed, and the result.
_LISTS: Final[dict[str, tuple[str, str, type[Any]]]] = {
    "tools/list": ("tools", "tool", t.ListToolsResult),
    "resources/list": ("resources", "described", t.ListResourcesResult),
    "resources/templates/list": ("templates", "described", t.ListResourceTemplatesResult),
    "prompts/list": ("prompts", "prompt", t.ListPromptsResult),
}


class Methods:
    """Finds the handler of a request among the entries of a server, and calls it."""

    def __init__(self, server: Server, workers: Workers, *, page_size: int | None, ttls: Mapping[str, int]) -> None:
        self._server = server
        self._workers = workers
        self.page_size = page_size
        self._ttls = ttls

    async def serve(self, context: Context) -> t.Result:
        """Handle a request."""
        match context.call.method:
            case "tools/call":
                return await self._call_tool(context)
            case "resources/read":
                return await self._read_resource(context)
            case "prompts/get":
                prompt = self._server.prompts.entries.get(context.call.params.name)
                if prompt is None:
                    raise NotFound("prompt", context.call.params.name)
                return await prompt.get(context.call.params.arguments or {}, context, self._workers.run)
            case "completion/complete":
                return await self._complete(context)
            case method if method in _LISTS:
                return await self._list(method, context.call.params.cursor)
            case method:
                raise MethodNotFound(f"unknown method {method}")

    async def _call_tool(self, context: Context) -> t.Result:
        entry = self._server.tools.entries.get(context.call.params.name)
        if entry is None:
            raise NotFound("tool", context.call.params.name)  # TL-04
        try:
            return await entry.call(context, self._workers.run, lenient=self._server.settings.lenient_arguments)
        except BaseException as error:
            response = failure_response(error, context, tool=entry.tool.name, debug=self._server.debug)
            if not isinstance(response, t.CallToolResult):
                raise
            return response

    async def _list(self, method: str, cursor: str | None) -> t.Result:
        name, member, kind = _LISTS[method]
        items = {key: getattr(entry, member) for key, entry in getattr(self._server, name).entries.items()}
        directories = list(self._server.directories)
        if name == "templates":
            items |= {directory.template.uri_template: directory.template for directory in directories}
        if name == "resources" and directories:
            from twopipes._server.directory import page_with_files  # few servers have one

            page, following = await page_with_files(items, directories, cursor, self.page_size, self._workers.run)
        else:
            page, following = page_of(items, cursor, self.page_size, name)
        result: t.Result = kind(list(page), following, ttl_ms=self._ttls.get(name, 0))
        return result

    async def _read_resource(self, context: Context) -> t.ReadResourceResult:
        uri = context.call.params.uri
        entry = self._server.resources.entries.get(uri)
        if entry is not None:
            return await entry.read(uri, {}, context, self._workers.run)
        for directory in self._server.directories:
            if directory.serves(uri):
                result: t.ReadResourceResult = await self._workers.run(functools.partial(directory.read, uri))
                return result
        for template in self._server.templates:
            if template.matcher is not None and (variables := template.matcher.match(uri)) is not None:
                return await template.read(uri, variables, context, self._workers.run)
        raise NotFound("resource", uri)

    async def _complete(self, context: Context) -> t.CompleteResult:
        from twopipes._server.completion import completed, suggestions  # few hosts use it

        params = context.call.params
        ref, argument = params.ref, params.argument
        is_prompt = isinstance(ref, t.PromptReference)
        name = ref.name if is_prompt else ref.uri
        owners: Mapping[str, FunctionEntry] = self._server.prompts.entries if is_prompt else self._server.templates.entries
        if name not in owners:
            raise NotFound("prompt" if is_prompt else "resource template", name)
        schema = owners[name].signature.input_schema.get("properties", {})
        if argument.name not in schema:
            raise NotFound("argument", argument.name)  # CM-03
        entry = self._server.completions.entries.get(f"{name} {argument.name}")
        if entry is not None:
            resolved = (params.context.arguments if params.context else None) or {}
            return await entry.suggest(argument.value, resolved, context, self._workers.run)
        return completed(suggestions(schema[argument.name], argument.value))
