"""The provider that bills: what it was paid stands in its file, whatever happens to anybody."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

from retoma.providers import (
    Answer,
    Message,
    Prompt,
    ProviderDown,
    ProviderTimeout,
    RateLimited,
    RequestRejected,
    Usage,
)
from retoma.providers.openai import OpenAIChat, OpenAIEmbedder
from retoma.testing.billing import Bill, Biller, request_hash
from retoma.testing.wire import Fault


@pytest.fixture
def biller(tmp_path: Path) -> Iterator[Biller]:
    with Biller(tmp_path / "bill.jsonl") as biller:
        yield biller


@asynccontextmanager
async def model_at(biller: Biller) -> AsyncIterator[OpenAIChat]:
    chat = OpenAIChat(key="k", model="small", base_url=biller.base_url)
    try:
        yield chat
    finally:
        await chat.aclose()


def prompt(text: str, **more: object) -> Prompt:
    return Prompt(messages=[Message(role="user", content=text)], **more)  # type: ignore[arg-type]


async def test_the_bill_and_the_answers_agree_to_the_last_digit(biller: Biller) -> None:
    async with model_at(biller) as model:
        answers = [await model.chat(prompt("palavra " * number), timeout=10) for number in range(1, 30)]

    assert len(biller.bill.calls) == 29
    assert biller.bill.cost == sum(answer.usage.cost or 0 for answer in answers) > 0
    assert [call.input_tokens for call in biller.bill.calls] == [answer.usage.input_tokens for answer in answers]
    assert {call.model for call in biller.bill.calls} == {"small"}


async def test_the_same_question_has_the_same_answer_and_is_paid_each_time(biller: Biller) -> None:
    async with model_at(biller) as model:
        first, second, other = [await model.chat(prompt(text), timeout=10) for text in ("Olá", "Olá", "Adeus")]

    assert (first.text, other.text) == ("Olá", "Adeus")
    assert first.raw == second.raw
    assert sorted(biller.bill.by_request.values()) == [1, 2]
    assert request_hash({"a": 1, "b": 2}) == request_hash({"b": 2, "a": 1})


class Party(BaseModel):
    name: str
    minor: bool


class Verdict(BaseModel):
    label: Literal["nota", "contrato", "recibo"]
    quote: str
    score: float
    parties: list[Party]
    first: Party
    note: str | None


async def test_an_answer_fits_the_schema_and_goes_by_the_text(biller: Biller) -> None:
    schema = Verdict.model_json_schema()
    async with model_at(biller) as model:
        told = [
            Verdict.model_validate_json((await model.chat(prompt(text, schema=schema), timeout=10)).text)
            for text in ("Recibo de um contrato", "Contrato de locação", "Lista de compras")
        ]

    assert [verdict.label for verdict in told] == ["recibo", "contrato", "nota"]
    assert told[1].quote == "Contrato de locação"


async def test_an_answer_that_would_be_too_long_is_cut_and_says_so(biller: Biller) -> None:
    async with model_at(biller) as model:
        answer = await model.chat(prompt("x" * 100, max_tokens=5), timeout=10)

    assert (answer.text, answer.finish, answer.usage.output_tokens) == ("x" * 20, "length", 5)


async def test_vectors_are_billed_too(biller: Biller) -> None:
    embedder = OpenAIEmbedder(key="k", model="e", dimensions=16, base_url=biller.base_url)

    found = await embedder.embed(["um", "dois", "um"], timeout=10)

    await embedder.aclose()
    assert found.vectors[0] == found.vectors[2] != found.vectors[1]
    assert len(biller.bill.calls) == 1
    assert found.usage.cost == biller.bill.cost


# — what goes wrong —


async def test_what_fails_before_it_begins_is_not_billed(biller: Biller) -> None:
    biller.tell(Fault(kind="answer", status=500), Fault(kind="vanish"))
    async with model_at(biller) as model:
        for _ in range(2):
            with pytest.raises(ProviderDown):
                await model.chat(prompt("Olá"), timeout=10)

    assert biller.bill.calls == []


@pytest.mark.parametrize(
    ("fault", "error", "timeout"),
    [
        (Fault(kind="cut"), ProviderDown, 10.0),
        (Fault(kind="vanish", late=True), ProviderDown, 10.0),
        (Fault(kind="hang", late=True), ProviderTimeout, 0.5),
        (Fault(kind="answer", status=500, body="{}", late=True), ProviderDown, 10.0),
    ],
    ids=["cut", "vanish", "hang", "500"],
)
async def test_an_answer_that_is_lost_on_the_way_is_billed_and_in_doubt(
    biller: Biller, fault: Fault, error: type[ProviderDown], timeout: float
) -> None:
    biller.tell(fault)
    async with model_at(biller) as model:
        with pytest.raises(error) as caught:
            await model.chat(prompt("Olá"), timeout=timeout)

    assert caught.value.paid is None
    assert len(biller.bill.calls) == 1


async def test_a_question_that_is_none_is_rejected_and_not_billed(biller: Biller) -> None:
    async with model_at(biller) as model:
        with pytest.raises(RequestRejected):
            await model.chat(Prompt(messages=[]), timeout=10)

    assert biller.bill.calls == []


async def test_some_of_many_fail_and_always_the_same(tmp_path: Path) -> None:
    async def seen(file: Path) -> list[bool]:
        with Biller(file) as biller:
            biller.tell(Fault(kind="answer", status=500, body="{}", rate=0.3, times=None))
            async with model_at(biller) as model:
                told = [
                    await asyncio.gather(model.chat(prompt(str(number)), timeout=10), return_exceptions=True)
                    for number in range(40)
                ]
            return [isinstance(each, Answer) for (each,) in told]

    first, second = await seen(tmp_path / "1"), await seen(tmp_path / "2")

    assert first == second
    assert 0 < first.count(False) < 40
    assert len(Bill(tmp_path / "1").calls) == first.count(True)


async def test_a_bill_outlives_its_provider(tmp_path: Path) -> None:
    file = tmp_path / "bill.jsonl"
    for _ in range(2):
        with Biller(file) as biller:
            async with model_at(biller) as model:
                await model.chat(prompt("Olá"), timeout=10)
            biller.process.kill()
    with file.open("a") as torn:
        torn.write('{"at": 1, "reque')  # as a kill leaves it

    assert len(Bill(file).calls) == 2


def test_a_bill_that_nobody_wrote_is_empty(tmp_path: Path) -> None:
    bill = Bill(tmp_path / "nothing")

    assert (bill.calls, bill.cost, bill.by_request) == ([], Decimal(0), {})


# — limits —


async def limited(model: OpenAIChat, text: str = "x") -> float | None:
    """Seconds to wait, or None when there was an answer."""
    try:
        await model.chat(prompt(text), timeout=10)
    except RateLimited as error:
        return error.retry_after
    return None


async def test_no_more_requests_than_allowed_and_as_many_again_after_the_wait(tmp_path: Path) -> None:
    with Biller(tmp_path / "bill", rpm=3, window=2.0) as biller:
        async with model_at(biller) as model:
            answer = await model.chat(prompt("x"), timeout=10)
            assert answer.allowance is not None
            assert (answer.allowance.requests, answer.allowance.tokens) == (2, None)
            waits = [await limited(model) for _ in range(3)]
            assert waits[:2] == [None, None]
            assert waits[2] is not None
            assert 0 < waits[2] <= 2

            await asyncio.sleep(waits[2])

            assert await limited(model) is None
        assert biller.counts() == {"billed": 4, "limited": 1}
        assert len(biller.bill.calls) == 4


async def test_no_more_tokens_than_allowed(tmp_path: Path) -> None:
    with Biller(tmp_path / "bill", tpm=30, window=60) as biller:
        async with model_at(biller) as model:
            assert await limited(model, "x" * 40) is None  # ten in, ten out
            assert await limited(model, "x" * 40) is not None
            assert await limited(model, "x" * 8) is None


async def test_no_more_at_once_than_allowed(tmp_path: Path) -> None:
    with Biller(tmp_path / "bill", at_once=2, seconds=0.5) as biller:
        async with model_at(biller) as model:
            waits = await asyncio.gather(*(limited(model) for _ in range(5)))

        assert waits.count(None) == 2
        assert biller.counts() == {"billed": 2, "limited": 3}


def test_it_is_a_command_that_prints_its_port_and_ends_with_who_started_it(tmp_path: Path) -> None:
    starter = (
        "import subprocess, sys\n"
        "command = [sys.executable, '-m', 'retoma.testing.billing', '--file', sys.argv[1], '--port', '0']\n"
        "print(subprocess.Popen(command, stdout=subprocess.PIPE).stdout.readline().decode())\n"
    )

    # Its standard error is ours: who reads it to the end has waited for the command too.
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", starter, str(tmp_path / "bill")],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    assert json.loads(ran.stdout)["port"] > 0
    assert ran.stderr == ""


def test_an_answer_says_what_it_used(biller: Biller) -> None:
    async def ask() -> Usage:
        async with model_at(biller) as model:
            return (await model.chat(prompt("12345678"), timeout=10)).usage

    usage = asyncio.run(ask())

    (call,) = biller.bill.calls
    assert (usage.input_tokens, usage.output_tokens, usage.cost) == (2, 2, Decimal("0.0000015"))
    assert (call.input_tokens, call.output_tokens, call.cost) == (2, 2, Decimal("0.0000015"))
