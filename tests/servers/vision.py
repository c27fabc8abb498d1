"""A model that sees, as Anthropic's Messages and as chat completions: it names what an image shows by its SHA-256.

``GET /_heard`` has every request as it came, so that a test counts the images that really went over the wire.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from typing import Any

from retoma.testing.wire import Asked, Given, Wire


def images_in(request: dict[str, Any]) -> list[bytes]:
    """The images of a request, in either form."""
    parts = [part for each in request["messages"] if isinstance(each["content"], list) for part in each["content"]]
    data = [part["source"]["data"] for part in parts if part["type"] == "image"]
    data += [part["image_url"]["url"].partition(",")[2] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(each) for each in data]


async def see(asked: Asked) -> Given:
    request = asked.json()
    seen = [hashlib.sha256(each).hexdigest()[:8] for each in images_in(request)]
    name = f"mesa {seen[0]}" if seen else "mesa sem imagem"
    text = json.dumps({"tipo_processamento": "GOOGLE_SHOPPING", "nome_canonico": "Mesa", "query_principal": name})
    if asked.path.endswith("/messages"):
        content = [{"type": "text", "text": text}]
        usage = {"input_tokens": 900, "output_tokens": 40}
        return Given.json(
            {"id": "m", "type": "message", "role": "assistant", "model": request["model"], "content": content,
             "stop_reason": "end_turn", "usage": usage}
        )  # fmt: skip
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940}
    return Given.json({"id": "c", "object": "chat.completion", "model": request["model"], "choices": [choice],
                       "usage": usage})  # fmt: skip


if __name__ == "__main__":
    asyncio.run(Wire(see).serve())
