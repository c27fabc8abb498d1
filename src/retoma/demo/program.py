"""The program of the demo: one pipeline, as a user would write it, but for the diary."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from retoma import Retoma, Run, pipeline
from retoma.demo.diary import VARIABLE, Diary
from retoma.demo.keywords import count_words, keywords_of, language_of
from retoma.steps import AsyncConnection

P = ParamSpec("P")
T = TypeVar("T")

_TABLE = """
create table if not exists retoma_demo (
    run text not null, document text not null, language text not null, words integer not null, keywords text[] not null
)"""


async def prepare(app: Retoma) -> None:
    """Make the table that the pipeline writes to."""
    async with app.transaction() as connection:
        await connection.execute(_TABLE)


@dataclass(frozen=True)
class Document:
    """A file to read, and the run of the demo that it belongs to."""

    path: str
    run: str = ""


@dataclass(frozen=True)
class Study:
    """What was found in a document."""

    language: str
    words: int
    keywords: list[str]


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


async def record(connection: AsyncConnection, document: Document, study: Study) -> None:
    """One row per document. There is no unique key: a second one would be seen."""
    await connection.execute(
        "insert into retoma_demo (run, document, language, words, keywords) values (%s, %s, %s, %s, %s)",
        (document.run, Path(document.path).name, study.language, study.words, study.keywords),
    )


@pipeline("study-text", timeout=60)
async def study_text(document: Document, run: Run, *, diary: Diary) -> Study:
    """Read a text, tell its language, count its words, find its keywords, and write them down."""

    async def step(name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await run.step(name, diary.witness(run, name, function), *args, **kwargs)

    text = await step("read", read, document.path)
    language = await step("language", language_of, text)
    counted = await step("count", count_words, text)
    keywords = await step("keywords", keywords_of, text, language)
    study = Study(language, counted["words"], keywords)
    await run.transact("record", diary.witness(run, "record", record), document, study)
    return study


app = Retoma(pipelines=[study_text], providers={Diary: Diary(os.environ.get(VARIABLE))})
