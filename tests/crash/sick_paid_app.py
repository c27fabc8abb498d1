"""The same beside a provider that is paid."""

from __future__ import annotations

from crash_app import mark, record
from paid_app import PROVIDERS
from sick_app import ONCE, six

from retoma import Retoma, Run, pipeline
from retoma.providers import Chat, Message, Prompt


@pipeline("paid", queue="work", retry=ONCE, timeout=100)
async def paid(number: int, run: Run, *, chat: Chat) -> str:
    mark(run, "ask")
    said = [Message(role="user", content=f"document {number}")]
    answer = await run.ask("ask", chat, Prompt(messages=said, max_tokens=20))
    await run.transact("record", record, run, "record")
    return answer


app = Retoma(pipelines=[six, paid], providers=PROVIDERS)
