"""The names that OpenTelemetry gives to requests to models. They are not stable yet, so they stand here and nowhere
else: when the convention changes a name, this module changes. There is no name for cost: ours begins with retoma.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
WORKFLOW = "gen_ai.workflow.name"
ERROR_TYPE = "error.type"
COST = "retoma.cost.usd"

_OPERATIONS = {"ask": "chat", "embed": "embeddings", "extract": "execute_tool", "search": "execute_tool"}


def operation(verb: str) -> str:
    """The operation of a kind of request; a kind that the convention does not know keeps its own word."""
    return _OPERATIONS.get(verb, verb)
