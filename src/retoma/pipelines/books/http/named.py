"""The addresses of the pages for programs: the same answers as under /api/v1, from the same functions."""

from __future__ import annotations

from fastapi import APIRouter

from retoma.pipelines.books.http import schemas as shapes
from retoma.pipelines.books.http import sessions
from retoma.web.pages.route import DataRoute

router = APIRouter(prefix="/books", route_class=DataRoute)

router.get("")(sessions.list_books)
router.get("/{id}")(sessions.get_book)
router.get("/{id}/chapters/{number:path}")(sessions.get_book_chapter)
router.post("", status_code=202, response_model=shapes.SentBook)(sessions.send_book)
router.post("/{id}/resume", status_code=202)(sessions.resume_book)
