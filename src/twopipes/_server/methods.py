"""The methods of the protocol, served from what an author has registered."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from twopipes._protocol.types import (
    CallToolResult,
    CompleteResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PromptReference,
    ReadResourceResult,
    Result,
)
from twopipes._server.context import Context
from twopipes._server.failures import failure_response
from twopipes._server.pagination import page_of
from twopipes._server.threads import Workers
from twopipes.errors import MethodNotFound, NotFound

if TYPE_CHECKING:
    from twopipes._server.app import Server
    from twopipes._server.prompts import PromptEntry
    from twopipes._server.resources import TemplateEntry

__all__ = ["Methods"]


class Methods:
    """Finds the handler of a request, and calls it.

    Args:
        server: The server, whose entries are looked up at each request.
        workers: Threads for functions that block.
        page_size: How many items a page of a list has; ``None`` for all.
        ttls: How long clients may cache a list, in milliseconds, by its name.
    """

    def __init__(
        self,
        server: Server,
        workers: Workers,
        *,
        page_size: int | None,
        ttls: Mapping[str, int],
    ) -> None:
        self.page_size = page_size
        self._server = server
        self._workers = workers
        self._ttls = ttls

    async def serve(self, context: Context) -> Result:
        """Handle a request.

        Raises:
            McpError: It cannot be done; the client gets the reason.
        """
        match context.call.method:
            case "tools/call":
                return await self._call_tool(context)
            case "tools/list":
                tools = {name: entry.tool for name, entry in self._server.tools.entries.items()}
                page, cursor = page_of(tools, context.call.params.cursor, self.page_size, "tools")
                return ListToolsResult(list(page), cursor, ttl_ms=self._ttls.get("tools", 0))
            case "resources/list":
                return await self._list_resources(context)
            case "resources/templates/list":
                templates = {uri: entry.template for uri, entry in self._server.templates.entries.items()}
                templates |= {directory.template.uri_template: directory.template for directory in self._server.directories}
                listed, cursor = page_of(templates, context.call.params.cursor, self.page_size, "templates")
                return ListResourceTemplatesResult(list(listed), cursor, ttl_ms=self._ttls.get("templates", 0))
            case "resources/read":
                return await self._read_resource(context)
            case "prompts/list":
                prompts = {name: entry.prompt for name, entry in self._server.prompts.entries.items()}
                found, cursor = page_of(prompts, context.call.params.cursor, self.page_size, "prompts")
                return ListPromptsResult(list(found), cursor, ttl_ms=self._ttls.get("prompts", 0))
            case "prompts/get":
                prompt = self._server.prompts.entries.get(context.call.params.name)
                if prompt is None:
                    raise NotFound("prompt", context.call.params.name)
                return await prompt.get(context.call.params.arguments or {}, context, self._workers.run)
            case "completion/complete":
                return await self._complete(context)
            case method:
                raise MethodNotFound(f"unknown method {method}")

    async def _call_tool(self, context: Context) -> Result:
        entry = self._server.tools.entries.get(context.call.params.name)
        if entry is None:
            raise NotFound("tool", context.call.params.name)  # TL-04
        try:
            return await entry.call(context, self._workers.run, lenient=self._server.settings.lenient_arguments)
        except BaseException as error:
            response = failure_response(error, context, tool=entry.tool.name, debug=self._server.debug)
            if not isinstance(response, CallToolResult):
                raise
            return response

    async def _list_resources(self, context: Context) -> ListResourcesResult:
        resources = {uri: entry.resource for uri, entry in self._server.resources.entries.items()}
        cursor = context.call.params.cursor
        directories = list(self._server.directories)
        if not directories:
            page, cursor = page_of(resources, cursor, self.page_size, "resources")
        else:
            from twopipes._server.directory import page_with_files  # noqa: PLC0415 - few servers have one

            page, cursor = await page_with_files(resources, directories, cursor, self.page_size, self._workers.run)
        return ListResourcesResult(list(page), cursor, ttl_ms=self._ttls.get("resources", 0))

    async def _read_resource(self, context: Context) -> ReadResourceResult:
        uri = context.call.params.uri
        entry = self._server.resources.entries.get(uri)
        if entry is not None:
            return await entry.read(uri, context, self._workers.run)
        for directory in self._server.directories:
            if directory.serves(uri):
                result: ReadResourceResult = await self._workers.run(functools.partial(directory.read, uri))
                return result
        for template in self._server.templates:
            found = template.matcher.match(uri)
            if found is not None:
                return await template.read(uri, found, context, self._workers.run)
        raise NotFound("resource", uri)

    async def _complete(self, context: Context) -> CompleteResult:
        from twopipes._server.completion import completed, suggestions  # noqa: PLC0415 - few hosts use it

        params = context.call.params
        ref, argument = params.ref, params.argument
        name = ref.name if isinstance(ref, PromptReference) else ref.uri
        resolved = (params.context.arguments if params.context else None) or {}
        schema = self._schema_of(ref, name)
        if argument.name not in schema:
            raise NotFound("argument", argument.name)  # CM-03
        entry = self._server.completions.entries.get(f"{name} {argument.name}")
        if entry is not None:
            return await entry.suggest(argument.value, resolved, context, self._workers.run)
        return completed(suggestions(schema[argument.name], argument.value))

    def _schema_of(self, ref: Any, name: str) -> Mapping[str, Any]:
        entry: PromptEntry | TemplateEntry | None
        entry = (
            self._server.prompts.entries.get(name) if isinstance(ref, PromptReference) else self._server.templates.entries.get(name)
        )
        if entry is None:
            raise NotFound("prompt" if isinstance(ref, PromptReference) else "resource template", name)
        properties: Mapping[str, Any] = entry.signature.input_schema.get("properties", {})
        return properties
