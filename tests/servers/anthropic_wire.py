"""Anthropic's Messages."""

from __future__ import annotations

from retoma.testing.wire import Asked, Given

LIMITS = {
    "date": "Mon, 10 Mar 2025 01:31:23 GMT",
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": "2025-03-10T01:31:24Z",
    "anthropic-ratelimit-input-tokens-remaining": "20000",
    "anthropic-ratelimit-input-tokens-reset": "2025-03-10T01:31:33Z",
    "anthropic-ratelimit-output-tokens-remaining": "8000",
    "anthropic-ratelimit-output-tokens-reset": "2025-03-10T01:31:43Z",
}


def messages(asked: Asked) -> Given:
    # The API takes both; which one is sent is up to the version of the SDK.
    key = asked.headers.get("x-api-key") or asked.headers.get("authorization", "").removeprefix("Bearer ")
    if "secret" not in key:
        error = {"type": "authentication_error", "message": f"invalid API key {key}"}
        return Given.json({"type": "error", "error": error, "request_id": "req_0"}, status=401)
    request = asked.json()
    text = '{"label": "contrato"}' if "output_config" in request else f"echo: {request['messages'][-1]['content']}"
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 12,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 5,
            "output_tokens": 6,
        },
    }
    return Given.json(body, headers={"request-id": "req_1", **LIMITS})


ROUTES = [("/v1/messages", messages)]
