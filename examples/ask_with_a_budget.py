"""Ask a model about ten documents with a budget that is enough for some of them.

    python examples/ask_with_a_budget.py

The model is a fake of retoma.testing: it speaks as OpenAI does and writes a bill. Put your own key and address into
OpenAIChat to ask a real one. The batch pauses before it costs more than its budget, and goes on when that is raised.
"""

import asyncio
import tempfile
from decimal import Decimal
from pathlib import Path

from retoma import Retoma, Run, pipeline
from retoma.providers import Chat, Message, Prompt
from retoma.providers.openai import OpenAIChat
from retoma.testing import drain
from retoma.testing.billing import Biller


@pipeline("describe-document")
async def describe(document: str, run: Run, *, chat: Chat) -> str:
    question = Message(role="user", content=f"Describe {document} in one sentence.")
    return await run.ask("describe", chat, Prompt(messages=[question], max_tokens=50))


async def main(bill: Path) -> None:
    with Biller(bill) as biller:
        chat = OpenAIChat(key="any", model="small", base_url=biller.base_url)
        async with Retoma(pipelines=[describe], providers={Chat: chat}) as app:
            await app.calls.set_price("openai", "small", input=Decimal("0.15"), output=Decimal("0.60"))
            documents = [f"document {number}" for number in range(10)]
            batch = await app.batch(describe, documents, name="ten documents", budget=Decimal("0.00005"))
            await drain(app, at_once=1)
            now = await app.batches.progress(batch.id)
            print(f"{now.state} by {now.reason}: {now.completed} of 10 done")

            await app.batches.change(batch.id, budget=Decimal("1.00"))
            await drain(app)
            now = await app.batches.progress(batch.id)
            print(f"{now.state}: {now.completed} of 10 done")
            print(f"recorded {now.spent:f} US$, billed {biller.bill.cost:f} US$ for {len(biller.bill.calls)} calls")
        await chat.aclose()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "bill.jsonl"))
