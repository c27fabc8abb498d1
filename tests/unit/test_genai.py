"""The names for models are those of OpenTelemetry, as far as its list goes."""

from __future__ import annotations

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from retoma.telemetry import genai

NEWER = {"gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.reasoning.output_tokens", "gen_ai.workflow.name"}
"""Names that the convention has and the installed list may not have yet."""


def test_every_name_is_one_of_the_convention() -> None:
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")} | NEWER
    ours = {value for name, value in vars(genai).items() if name.isupper() and str(value).startswith("gen_ai.")}

    assert len(ours) > 8
    assert ours - known == set()
    assert genai.operation("ask") == "chat"
    assert genai.operation("translate") == "translate", "a kind of our own keeps its word"
