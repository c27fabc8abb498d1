"""The program of the demo: the ready classification pipeline, and the machine's own providers behind a switch.

All of it is what production runs, but for three things: a diary is kept of what really runs, one document kills its
reader, and the classifier behaves like a service on the network. It takes a while to answer, and can fall silent.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from retoma import Retoma, Settings
from retoma.demo.diary import CLASSIFY, DONE, NOW, READ, Diary
from retoma.pipelines import CLASSIFICATION
from retoma.providers import Classifier, Extraction, Extractor, Label, ProviderTimeout, Verdict
from retoma.providers.factory import providers_from
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.run.pipeline import Pipeline
from retoma.run.run import Run

VARIABLE = "RETOMA_DEMO_FOLDER"
PATIENCE = 9.0
"""Seconds after which a request without an answer is given up."""

# By name: their libraries are loaded in the child process that needs them, and nowhere else.
READERS = {"pdf": ("retoma.demo.readers:read", "retoma.demo.readers:repair")}
_LOOK = 0.1


@dataclass(frozen=True, slots=True)
class Switches:
    """Files in the folder of the demo; what they say is true while they are there."""

    folder: Path

    @property
    def latency(self) -> Path:
        """So many seconds the provider takes to answer."""
        return self.folder / "latency"

    @property
    def outage(self) -> Path:
        """The provider answers nobody."""
        return self.folder / "outage"

    @property
    def unlucky(self) -> Path:
        """It answers nobody who asks about the documents that are listed here."""
        return self.folder / "unlucky"

    def avoids(self, code: str | None) -> bool:
        """Whether the document *code* is one of them."""
        try:
            return code in self.unlucky.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return False


class NotedExtractor:
    """The local extractor, with a line in the diary for each document it is given."""

    provider = "local"

    def __init__(self, diary: Diary) -> None:
        self._diary = diary
        self._local = LocalExtractor(readers=READERS)

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        """What *file* says."""
        self._diary.write(READ)
        return await self._local.extract(file, kind=kind, timeout=timeout)


class FaultyClassifier:
    """The local classifier, with a line in the diary for each question, and as silent as its switches say."""

    provider = "local"

    def __init__(self, diary: Diary, switches: Switches) -> None:
        self._diary = diary
        self._switches = switches
        self._latency = float(switches.latency.read_text())
        self._local = LocalClassifier()
        self.model = self._local.model

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> Sequence[Verdict]:
        """One verdict per text."""
        self._diary.write(CLASSIFY)
        await asyncio.sleep(self._latency)
        if self._switches.avoids(NOW.get().key):
            raise _silence(0.0)
        deadline = time.monotonic() + min(timeout, PATIENCE)
        while self._switches.outage.exists():
            if time.monotonic() > deadline:
                raise _silence(PATIENCE)
            await asyncio.sleep(_LOOK)
        return await self._local.classify(texts, labels, timeout=timeout)


def _silence(seconds: float) -> ProviderTimeout:
    waited = f"The provider has not answered for {seconds:g} s" if seconds else "The provider closed the connection"
    return ProviderTimeout(f"{waited}.", provider="local", paid=False)


def noted(pipeline: Pipeline[Any, Any], diary: Diary) -> Pipeline[Any, Any]:
    """*pipeline* itself; the attempt at hand is known to the providers, and its good end is noted."""
    handler = pipeline.handler

    async def handled(given: Any, run: Run, **providers: Any) -> Any:
        NOW.set(run)
        value = await handler(given, run, **providers)
        diary.write(DONE)
        return value

    return replace(pipeline, handler=handled)


@cache
def pipelines(folder: Path) -> tuple[Pipeline[Any, Any], ...]:
    """Those of classification, noted in the diary of the stage in *folder*. The last step of the batch is no document:
    it comes as it is, with the pipeline that names it.
    """
    diary, given = Diary(folder / "diary.jsonl"), CLASSIFICATION.load_pipelines()
    last = {each.finish.name for each in given if each.finish is not None}
    return tuple(noted(each, diary) for each in given if each.name not in last)


@cache
def program(folder: Path) -> Retoma:
    """The app of the demo whose stage is *folder*."""
    settings = Settings.load()
    diary, switches = Diary(folder / "diary.jsonl"), Switches(folder)
    providers = providers_from({"RETOMA_HOME": str(settings.home)})
    providers |= {Extractor: NotedExtractor(diary), Classifier: FaultyClassifier(diary, switches)}
    classification = replace(CLASSIFICATION, pipelines=f"{__name__}:PIPELINES")
    return Retoma(settings=settings, extensions=[classification], providers=providers)


def __getattr__(name: str) -> Any:
    # Made when a worker asks for it: its stage is told by the environment.
    if name == "app":
        return program(Path(os.environ[VARIABLE]))
    if name == "PIPELINES":
        return pipelines(Path(os.environ[VARIABLE]))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
