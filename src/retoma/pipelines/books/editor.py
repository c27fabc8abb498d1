"""Who sums up chapters when the app names nobody: a model where there is one to ask, else the chapter's own words."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from retoma.pipelines.books.ports import Editor
from retoma.providers import Chat

if TYPE_CHECKING:
    from retoma.pipelines.books.text.editors import LocalEditor, ModelEditor


def editor_for(chat: Chat | None) -> Editor:
    """The editor of an app that provides none of its own."""
    return _local() if chat is None else _model(chat.provider, chat.model)


@cache
def _local() -> LocalEditor:
    from retoma.pipelines.books.text.editors import LocalEditor  # noqa: PLC0415 - numpy comes with it

    return LocalEditor()


@cache
def _model(provider: str, model: str) -> ModelEditor:
    from retoma.pipelines.books.text.editors import ModelEditor  # noqa: PLC0415 - numpy comes with it

    return ModelEditor(provider, model)
