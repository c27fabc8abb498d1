"""The pages of books: all of them, one session, one chapter, its text, the review of a list of chapters."""

from __future__ import annotations

from fastapi import APIRouter

from retoma.pipelines.books.pages.chapters import router as chapters
from retoma.pipelines.books.pages.context import ROOT
from retoma.pipelines.books.pages.review import router as review
from retoma.pipelines.books.pages.session import router as session
from retoma.pipelines.books.pages.shelf import router as shelf
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)

for each in (shelf, session, review, chapters):
    router.include_router(each, prefix=ROOT)
