"""A program that posts one text many times at once; the answers are its last line."""

import asyncio
import json
import sys

import httpx2


async def main(url: str, times: int, content: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:

        async def post(number: int) -> dict[str, object]:
            text = {"organisation": "acme", "site": "main", "source_type": "page", "source_id": f"{number % 7}"}
            answer = await client.post("/api/v1/embeddings", json={"texts": [text | {"content": content}]})
            answer.raise_for_status()
            return dict(answer.json()["texts"][0])

        print(json.dumps(await asyncio.gather(*map(post, range(times)))), flush=True)  # noqa: T201


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
