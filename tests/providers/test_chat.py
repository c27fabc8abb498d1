"""What is asked of a model, what comes back, and that the answer is kept as it came."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from asking import CASES, HELLO, KEY, Case, everything_told

from retoma.errors import ConfigurationError
from retoma.providers import (
    Allowance,
    AnswerUnreadable,
    Chat,
    Message,
    Picture,
    Prompt,
    ProviderDown,
    ProviderRefused,
    RateLimited,
    RequestRejected,
    Usage,
    takes_pictures,
)
from retoma.providers.anthropic import AnthropicChat
from retoma.providers.azure_openai import AzureOpenAIChat
from retoma.providers.openai import OpenAIChat, can_be_strict
from retoma.providers.openrouter import OpenRouterChat
from retoma.providers.requests.ask import Ask
from retoma.testing.wire import Fault, Served

CHATS = [case for case in CASES if case.name in ("openai", "openrouter", "azure-openai", "anthropic")]
STRICT = {
    "type": "object",
    "properties": {"label": {"enum": ["contrato", "nota"]}},
    "required": ["label"],
    "additionalProperties": False,
}


@pytest.fixture
async def openai(services: Served) -> AsyncIterator[OpenAIChat]:
    chat = OpenAIChat(key=KEY, model="m", base_url=f"{services.url}/v1")
    yield chat
    await chat.aclose()


@pytest.fixture
async def openrouter(services: Served) -> AsyncIterator[OpenRouterChat]:
    routing = {"order": ["azure"], "allow_fallbacks": False}
    chat = OpenRouterChat(key=KEY, model="m", base_url=f"{services.url}/openrouter/v1", routing=routing)
    yield chat
    await chat.aclose()


@pytest.fixture
async def azure(services: Served) -> AsyncIterator[AzureOpenAIChat]:
    chat = AzureOpenAIChat(key=KEY, endpoint=services.url, deployment="nosso-gpt")
    yield chat
    await chat.aclose()


@pytest.fixture
async def anthropic(services: Served) -> AsyncIterator[AnthropicChat]:
    chat = AnthropicChat(key=KEY, model="claude", base_url=services.url)
    yield chat
    await chat.aclose()


def said(services: Served) -> Any:
    return json.loads(services.heard()[-1]["body"].encode("latin-1"))


def instead(services: Served, body: Any, *, status: int = 200, **headers: str) -> None:
    """The next answer has another body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    services.tell(Fault(kind="answer", status=status, body=json.dumps(body), headers=named))


def completed(text: str | None, *, finish: str = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return {"id": "c1", "model": "m-1", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}


# — all of them —


@pytest.mark.parametrize("case", CHATS, ids=str)
async def test_an_answer_carries_its_body_as_it_came(services: Served, case: Case) -> None:
    chat: Chat = case.make(services.url)

    answer = await case.ask(chat, 10)

    await chat.aclose()
    assert isinstance(chat, Chat)
    assert answer.text == "echo: Olá"
    assert json.loads(answer.raw)["id"]
    assert answer.finish in ("stop", "end_turn")
    assert not answer.truncated


@pytest.mark.parametrize("case", CHATS, ids=str)
async def test_a_stream_is_refused_before_it_is_paid(services: Served, case: Case) -> None:
    chat = case.make(services.url)

    with pytest.raises(RequestRejected, match="stream") as caught:
        await chat.chat(Prompt(messages=HELLO.messages, parameters={"stream": True}), timeout=10)

    assert caught.value.paid is False
    assert services.heard() == []


@pytest.mark.parametrize("case", CHATS, ids=str)
def test_one_provider_serves_one_event_loop_after_another(services: Served, case: Case) -> None:
    chat = case.make(services.url)

    async def once() -> str:
        try:
            return (await case.ask(chat, 10)).text
        finally:
            await chat.aclose()

    assert [asyncio.run(once()) for _ in range(2)] == ["echo: Olá"] * 2


@pytest.mark.parametrize("case", CHATS, ids=str)
async def test_a_key_that_is_not_good_is_refused_and_not_repeated(services: Served, case: Case) -> None:
    # The service repeats the key in its error, and this one it does not know.
    services.tell(Fault(kind="answer", status=401, body=json.dumps({"error": {"message": f"Unknown key {KEY}"}})))
    chat = case.make(services.url)

    with pytest.raises(ProviderRefused) as caught:
        await case.ask(chat, 10)

    await chat.aclose()
    assert "Unknown key ***" in str(caught.value)
    assert KEY not in everything_told(caught.value)


@pytest.mark.parametrize("key", ["with a space ", "line\nend", "ção", " padded"])
def test_a_key_that_no_key_can_be_is_refused_at_once_and_not_repeated(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIChat(key=key, model="m")

    assert key.strip() not in str(caught.value)


async def test_many_questions_at_once_wait_for_the_service_alone(openai: OpenAIChat, services: Served) -> None:
    services.tell(Fault(kind="wait", seconds=0.2, times=None))

    answers = await asyncio.gather(*(openai.chat(HELLO, timeout=30) for _ in range(150)))

    assert len(answers) == 150


# — OpenAI —


async def test_openai_is_asked_in_its_own_words(openai: OpenAIChat, services: Served) -> None:
    prompt = Prompt(
        messages=HELLO.messages,
        model="other",
        max_tokens=50,
        temperature=0.2,
        schema=STRICT,
        parameters={"seed": 7, "something_new": {"a": 1}},
    )

    answer = await openai.chat(prompt, timeout=10)

    assert said(services) == {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Olá"}],
        "model": "other",
        "max_tokens": 50,
        "temperature": 0.2,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": STRICT, "strict": True}},
        "seed": 7,
        "something_new": {"a": 1},
    }
    assert json.loads(answer.text) == {"label": "contrato"}
    assert answer.usage == Usage(input_tokens=19, output_tokens=10, cached_tokens=4)
    assert answer.request_id == "req_1"
    assert answer.allowance == Allowance(requests=59, tokens=149984, resets_in=360.0)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (STRICT, True),
        ({**STRICT, "additionalProperties": True}, False),
        ({**STRICT, "required": []}, False),
        ({"type": "object", "properties": {}}, False),
        ({**STRICT, "properties": {"label": {"type": "array", "items": {"type": "object"}}}}, False),
        ({**STRICT, "properties": {"label": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, True),
        ({"type": "string"}, True),
    ],
)
def test_only_a_schema_that_leaves_nothing_open_is_strict(schema: dict[str, Any], strict: bool) -> None:
    assert can_be_strict(schema) is strict


async def test_an_answer_that_ends_too_soon_says_so(openai: OpenAIChat, services: Served) -> None:
    instead(services, completed("Era uma", finish="length"))

    answer = await openai.chat(HELLO, timeout=10)

    assert (answer.text, answer.finish, answer.truncated) == ("Era uma", "length", True)


async def test_a_filtered_answer_is_an_answer_that_says_so(openai: OpenAIChat, services: Served) -> None:
    instead(services, completed(None, finish="content_filter"))

    answer = await openai.chat(HELLO, timeout=10)

    assert (answer.text, answer.finish) == ("", "content_filter")


async def test_a_refusal_is_an_answer_that_says_so(openai: OpenAIChat, services: Served) -> None:
    instead(services, completed(None, refusal="I cannot help with that."))

    answer = await openai.chat(HELLO, timeout=10)

    assert (answer.text, answer.finish) == ("I cannot help with that.", "refusal")


async def test_calls_of_tools_are_in_the_body(openai: OpenAIChat, services: Served) -> None:
    calls = [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    instead(services, completed(None, finish="tool_calls", tool_calls=calls))

    answer = await openai.chat(HELLO, timeout=10)

    assert (answer.text, answer.finish) == ("", "tool_calls")
    assert json.loads(answer.raw)["choices"][0]["message"]["tool_calls"] == calls


@pytest.mark.parametrize(
    "body",
    [
        {**completed("x"), "choices": []},
        completed(42),  # type: ignore[arg-type]
        {**completed("x"), "choices": [None]},
    ],
    ids=["no choices", "content is a number", "a choice is nothing"],
)
async def test_an_answer_that_is_not_one_keeps_what_was_paid(
    openai: OpenAIChat, services: Served, body: dict[str, Any]
) -> None:
    instead(services, body)

    with pytest.raises(AnswerUnreadable) as caught:
        await openai.chat(HELLO, timeout=10)

    assert caught.value.paid is True
    assert json.loads(caught.value.raw or "") == body


@pytest.mark.parametrize("usage", [None, {}, [], "much", {"prompt_tokens": "many"}, {"prompt_tokens": None}, 7])
async def test_an_answer_that_was_paid_is_kept_whatever_its_usage_says(
    openai: OpenAIChat, services: Served, usage: object
) -> None:
    instead(services, {**completed("x"), "usage": usage})

    answer = await openai.chat(HELLO, timeout=10)

    assert (answer.text, answer.usage.reported) == ("x", False)


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
async def test_a_limit_that_waiting_does_not_heal_is_a_refusal(openai: OpenAIChat, services: Served, code: str) -> None:
    instead(services, {"error": {"code": code, "message": "You exceeded your current quota"}}, status=429)

    with pytest.raises(ProviderRefused, match="quota") as caught:
        await openai.chat(HELLO, timeout=10)

    assert not caught.value.retryable


async def test_a_429_without_a_time_is_timed_by_what_is_used_up(openai: OpenAIChat, services: Served) -> None:
    instead(
        services,
        {"error": {"message": "Rate limit reached for tokens"}},
        status=429,
        x_ratelimit_remaining_requests="12",
        x_ratelimit_reset_requests="1m30s",
        x_ratelimit_remaining_tokens="0",
        x_ratelimit_reset_tokens="2.5s",
    )

    with pytest.raises(RateLimited) as caught:
        await openai.chat(HELLO, timeout=10)

    assert caught.value.retry_after == 2.5


async def test_the_newer_name_of_the_limit_goes_to_openai_alone(services: Served, openai: OpenAIChat) -> None:
    most = Prompt(messages=HELLO.messages, max_tokens=5)

    await openai.chat(most, timeout=10)

    assert said(services)["max_tokens"] == 5
    assert OpenAIChat(key=KEY, model="m")._options(most) == {"max_completion_tokens": 5}


async def test_a_compatible_service_has_a_name_of_its_own(services: Served) -> None:
    services.tell(Fault(kind="answer", status=500))
    chat = OpenAIChat(key=KEY, model="m", base_url=f"{services.url}/v1", provider="vllm")

    with pytest.raises(ProviderDown, match="vllm answered 500") as caught:
        await chat.chat(HELLO, timeout=10)

    await chat.aclose()
    assert caught.value.provider == "vllm"


# — Azure OpenAI —


async def test_azure_is_asked_by_deployment_and_version(azure: AzureOpenAIChat, services: Served) -> None:
    answer = await azure.chat(Prompt(messages=HELLO.messages, max_tokens=9), timeout=10)

    (asked,) = services.heard()
    assert asked["path"] == "/openai/deployments/nosso-gpt/chat/completions"
    assert asked["query"] == {"api-version": "2024-10-21"}
    assert asked["headers"]["api-key"] == KEY
    assert said(services)["max_completion_tokens"] == 9
    assert answer.text == "echo: Olá"


async def test_a_prompt_that_azure_filters_is_a_rejected_request(azure: AzureOpenAIChat, services: Served) -> None:
    error = {"code": "content_filter", "message": "The response was filtered", "innererror": {"message": "violence"}}
    instead(services, {"error": error}, status=400)

    with pytest.raises(RequestRejected, match="content_filter The response was filtered violence"):
        await azure.chat(HELLO, timeout=10)


# — OpenRouter —


async def test_openrouter_tells_the_cost_and_takes_the_route(openrouter: OpenRouterChat, services: Served) -> None:
    answer = await openrouter.chat(Prompt(messages=HELLO.messages, schema=STRICT), timeout=10)

    asked = said(services)
    assert asked["usage"] == {"include": True}
    assert asked["provider"] == {"order": ["azure"], "allow_fallbacks": False, "require_parameters": True}
    assert answer.usage.cost == Decimal("0.000123")
    assert answer.request_id == "gen-1"
    assert answer.allowance == Allowance(requests=7, resets_in=60.0)


async def test_what_the_owner_of_a_key_pays_upstream_is_part_of_the_cost(
    openrouter: OpenRouterChat, services: Served
) -> None:
    body = completed("x")
    body["usage"] |= {"cost": 0.00005, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.001}}
    instead(services, body)

    answer = await openrouter.chat(HELLO, timeout=10)

    assert answer.usage.cost == Decimal("0.00105")


@pytest.mark.parametrize(
    ("error", "kind", "paid"),
    [
        ({"code": 429, "message": "Rate limited upstream"}, RateLimited, False),
        ({"code": 402, "message": "Insufficient credits"}, ProviderRefused, False),
        ({"code": 400, "message": "Context too long"}, RequestRejected, False),
        ({"code": 502, "message": "Provider returned error"}, ProviderDown, None),
        ({"code": "oops", "message": "Something"}, ProviderDown, None),
        ({"code": 403, "message": "Your input was flagged"}, RequestRejected, False),
    ],
)
async def test_an_error_that_came_with_status_200_is_that_error(
    openrouter: OpenRouterChat, services: Served, error: dict[str, Any], kind: type[Exception], paid: bool | None
) -> None:
    instead(services, {"error": error, "user_id": "u"})

    with pytest.raises(kind) as caught:
        await openrouter.chat(HELLO, timeout=10)

    assert type(caught.value) is kind
    assert caught.value.paid is paid  # type: ignore[attr-defined]


async def test_the_headers_of_a_hidden_429_say_when_to_come_back(openrouter: OpenRouterChat, services: Served) -> None:
    hidden = {"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1741305645000"}
    error = {"code": 429, "message": "Rate limit exceeded: free-models-per-min", "metadata": {"headers": hidden}}
    instead(services, {"error": error}, date="Fri, 07 Mar 2025 00:00:00 GMT")

    with pytest.raises(RateLimited) as caught:
        await openrouter.chat(HELLO, timeout=10)

    assert caught.value.retry_after == 45.0


async def test_an_answer_that_broke_off_at_the_provider_behind_may_be_paid(
    openrouter: OpenRouterChat, services: Served
) -> None:
    body = completed("Era uma", finish="error")
    body["choices"][0]["error"] = {"code": 503, "message": "Provider disconnected"}
    instead(services, body)

    with pytest.raises(ProviderDown) as caught:
        await openrouter.chat(HELLO, timeout=10)

    assert caught.value.paid is None


async def test_openrouter_does_not_learn_whose_organization_it_is(
    openrouter: OpenRouterChat, services: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-ours")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-ours")

    await openrouter.chat(HELLO, timeout=10)

    assert "ours" not in str(services.heard()[0]["headers"])


# — Anthropic —


async def test_anthropic_is_asked_in_its_own_words(anthropic: AnthropicChat, services: Served) -> None:
    prompt = Prompt(messages=HELLO.messages, temperature=0.1, schema=STRICT, parameters={"top_k": 3})

    answer = await anthropic.chat(prompt, timeout=10)

    assert said(services) == {
        "model": "claude",
        "max_tokens": 4096,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Olá"}],
        "temperature": 0.1,
        "output_config": {"format": {"type": "json_schema", "schema": STRICT}},
        "top_k": 3,
    }
    assert json.loads(answer.text) == {"label": "contrato"}
    assert answer.usage == Usage(input_tokens=20, output_tokens=6, cached_tokens=5, cache_write_tokens=3)
    assert answer.request_id == "req_1"
    assert answer.allowance == Allowance(requests=49, tokens=8000, resets_in=20.0)


async def test_an_answer_of_anthropic_that_ends_too_soon_says_so(anthropic: AnthropicChat, services: Served) -> None:
    usage = {"input_tokens": 1, "output_tokens": 5}
    content = [{"type": "text", "text": "Era "}, {"type": "text", "text": "uma"}]
    instead(services, {"content": content, "stop_reason": "max_tokens", "usage": usage})

    answer = await anthropic.chat(HELLO, timeout=10)

    assert (answer.text, answer.finish, answer.truncated, answer.model) == ("Era uma", "max_tokens", True, "claude")


async def test_a_long_answer_may_be_asked_of_anthropic_without_a_stream(
    anthropic: AnthropicChat, services: Served
) -> None:
    await anthropic.chat(Prompt(messages=HELLO.messages, max_tokens=100_000), timeout=10)

    assert said(services)["max_tokens"] == 100_000


async def test_credit_that_is_used_up_at_anthropic_is_a_refusal(anthropic: AnthropicChat, services: Served) -> None:
    error = {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}
    instead(services, {"type": "error", "error": error}, status=400)

    with pytest.raises(ProviderRefused):
        await anthropic.chat(HELLO, timeout=10)


async def test_several_turns_keep_their_order(anthropic: AnthropicChat, services: Served) -> None:
    turns = [Message(role=role, content=role) for role in ("system", "user", "assistant", "user")]

    await anthropic.chat(Prompt(messages=turns), timeout=10)

    assert [each["role"] for each in said(services)["messages"]] == ["user", "assistant", "user"]


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def of_picture(file: Path) -> Prompt:
    picture = Picture(file=file, kind="image/png", sha256=hashlib.sha256(PIXEL).hexdigest())
    return Prompt(
        messages=[
            Message(role="system", content="Be brief."),
            Message(role="user", content="What is it?", pictures=[picture]),
        ]
    )


@pytest.mark.parametrize("case", CHATS, ids=str)
async def test_a_picture_goes_beside_the_words_byte_for_byte(case: Case, services: Served, tmp_path: Path) -> None:
    file = tmp_path / "pixel.png"
    file.write_bytes(PIXEL)
    chat = case.make(services.url)

    await chat.chat(of_picture(file), timeout=30)
    await chat.aclose()

    (heard,) = services.heard()
    said = json.loads(heard["body"])["messages"][-1]["content"]
    data = base64.b64encode(PIXEL).decode()
    assert takes_pictures(chat)
    if case.name == "anthropic":
        source = {"type": "base64", "media_type": "image/png", "data": data}
        assert said == [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]
    else:
        shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        assert said == [{"type": "text", "text": "What is it?"}, shown]


async def test_equal_pictures_make_equal_requests_whatever_their_files_are_called(tmp_path: Path) -> None:
    chat = OpenAIChat(key=KEY, model="m", base_url="http://127.0.0.1:9")
    one, other = Ask(chat=chat, prompt=of_picture(tmp_path / "a")), Ask(chat=chat, prompt=of_picture(tmp_path / "b"))
    words = Ask(chat=chat, prompt=Prompt(messages=[Message(role="user", content="What is it?")]))
    same = Ask(chat=chat, prompt=Prompt(messages=[Message(role="user", content="What is it?", pictures=())]))

    assert one.key() == other.key()
    assert len({one.key(), words.key()}) == 2
    assert words.key() == same.key()
    assert str(tmp_path) not in json.dumps(one.body)
    assert one.estimate.input_tokens > words.estimate.input_tokens
