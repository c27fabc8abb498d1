"""OpenAI, Azure OpenAI and OpenRouter: one wire, three dialects."""

from __future__ import annotations

from typing import Any

from retoma.testing.wire import Asked, Given

LIMITS = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "1s",
    "x-ratelimit-limit-tokens": "150000",
    "x-ratelimit-remaining-tokens": "149984",
    "x-ratelimit-reset-tokens": "6m0s",
}


def refused(asked: Asked) -> Given | None:
    key = asked.headers.get("api-key") or asked.headers.get("authorization", "").removeprefix("Bearer ")
    if "secret" in key:
        return None
    said = f"Incorrect API key provided: {key}. You can find your API key on your page."
    return Given.json(
        {"error": {"message": said, "type": "invalid_request_error", "code": "invalid_api_key"}}, status=401
    )


def completion(text: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1741570283,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, "refusal": None}, "finish_reason": "stop"}
        ],
        "usage": {
            "prompt_tokens": 19,
            "completion_tokens": 10,
            "total_tokens": 29,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
        **more,
    }


def chat(asked: Asked) -> Given:
    request = asked.json()
    text = '{"label": "contrato"}' if "response_format" in request else f"echo: {request['messages'][-1]['content']}"
    return refused(asked) or Given.json(completion(text), headers={"x-request-id": "req_1", **LIMITS})


def openrouter(asked: Asked) -> Given:
    answer = completion(f"echo: {asked.json()['messages'][-1]['content']}", id="gen-1", provider="Azure")
    answer["usage"] |= {"cost": 0.000123, "is_byok": False, "cost_details": {"upstream_inference_cost": None}}
    limits = {
        "x-ratelimit-remaining": "7",
        "x-ratelimit-reset": "1741570343000",
        "date": "Mon, 10 Mar 2025 01:31:23 GMT",
    }
    return refused(asked) or Given.json(answer, headers=limits)


def embeddings(asked: Asked) -> Given:
    request = asked.json()
    size = request.get("dimensions", 4)
    vectors = [
        {"object": "embedding", "index": index, "embedding": [index + 0.5] * size}
        for index, _ in enumerate(request["input"])
    ]
    body = {
        "object": "list",
        "data": vectors[::-1],  # the order is in the index, not in the list
        "model": request["model"],
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }
    return refused(asked) or Given.json(body, headers=LIMITS)


ROUTES = [
    ("/openrouter/v1/chat/completions", openrouter),
    ("/chat/completions", chat),
    ("/embeddings", embeddings),
]
