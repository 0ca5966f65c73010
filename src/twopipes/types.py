"""Protocol types, and the types of the objects that handlers and callbacks receive."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._client.caller import InputRequired as InputRequired
    from twopipes._client.era_cache import EraCache as EraCache
    from twopipes._client.era_cache import EraRecord as EraRecord
    from twopipes._client.input_handlers import Elicitation as Elicitation
    from twopipes._client.input_handlers import Sampling as Sampling
    from twopipes._client.options import ClientOptions as ClientOptions
    from twopipes._client.results import Validation as Validation
    from twopipes._client.stray_output import StrayOutput as StrayOutput
    from twopipes._protocol.revisions import ALL as ALL
    from twopipes._protocol.revisions import ERROR_CODES as ERROR_CODES
    from twopipes._protocol.revisions import LEGACY as LEGACY
    from twopipes._protocol.revisions import MODERN as MODERN
    from twopipes._protocol.types import *  # noqa: F403 - all its names are public
    from twopipes._server.context import ClientView as ClientView
    from twopipes._server.forms import AcceptedForm as AcceptedForm
    from twopipes._server.forms import CancelledForm as CancelledForm
    from twopipes._server.forms import DeclinedForm as DeclinedForm
    from twopipes._server.options import PromptOptions as PromptOptions
    from twopipes._server.options import ResourceOptions as ResourceOptions
    from twopipes._server.options import ToolOptions as ToolOptions
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "twopipes._client.caller": "InputRequired",
            "twopipes._client.era_cache": "EraCache EraRecord",
            "twopipes._client.input_handlers": "Elicitation Sampling",
            "twopipes._client.options": "ClientOptions",
            "twopipes._client.results": "Validation",
            "twopipes._client.stray_output": "StrayOutput",
            "twopipes._protocol.revisions": "ALL ERROR_CODES LEGACY MODERN",
            "twopipes._protocol.types": (
                "AcknowledgedParams Annotations AnsweringParams AudioContent BooleanSchema CacheScope "
                "CacheableResult CallToolParams CallToolResult CancelledParams ClientCapabilities CompleteParams "
                "CompleteResult Completion CompletionArgument CompletionContext ContentBlock CreateMessageParams "
                "CreateMessageRequest CreateMessageResult DiscoverResult ElicitParams ElicitRequest ElicitResult "
                "ElicitSchema ElicitValue ElicitationCompleteParams EmbeddedResource EmptyParams EmptyResult "
                "EnumOption FieldSchema GetPromptParams GetPromptResult Icon ImageContent Implementation "
                "InitializeParams InitializeResult InputRequest InputRequiredResult IntegerSchema LOGGING_LEVELS "
                "ListChangedParams ListParams ListPromptsResult ListResourceTemplatesResult ListResourcesResult "
                "ListRootsRequest ListRootsResult ListToolsResult ListenParams LogParams LoggingLevel MetaModel "
                "Model ModelHint ModelPreferences MultiSelectSchema NumberSchema Params ProgressParams Prompt "
                "PromptArgument PromptMessage PromptReference ReadResourceParams ReadResourceResult Resource "
                "ResourceContents ResourceLink ResourceReference ResourceTemplate ResourceUpdatedParams Result "
                "Role Root SamplingContent SamplingMessage SelectItems ServerCapabilities SetLevelParams "
                "StringSchema SubscribeParams SubscriptionFilter SubscriptionsListenResult TextContent Tool "
                "ToolAnnotations ToolChoice ToolExecution ToolResultContent ToolUseContent UnknownContent "
                "UnsubscribeParams"
            ),
            "twopipes._server.context": "ClientView",
            "twopipes._server.forms": "AcceptedForm CancelledForm DeclinedForm",
            "twopipes._server.options": "PromptOptions ResourceOptions ToolOptions",
        },
    )
