"""The documents of a project, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from retoma.pipelines.classification.model import Added, Announced, ProjectDocument
from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.classification.queries", "documents.sql")

LONGEST_CODE = 100
_MARK = 8


def _id(id: int, *_: object) -> int:
    return id


def _known(id: int, new: bool) -> tuple[int, bool]:
    return id, new


def add(
    project_id: int,
    filename: str,
    *,
    code: str | None = None,
    kind: str,
    sha: str,
    size: int,
    blob: str,
    source: str = "upload",
) -> Query[Added]:
    """*code* is what people call it, if not by its file's name."""
    called = (code or filename)[:LONGEST_CODE]
    params = {
        "project_id": project_id,
        "code": called,
        "other_code": f"{called[: LONGEST_CODE - _MARK - 1]}~{sha[:_MARK]}",
        "stem": PurePosixPath(filename).stem[:LONGEST_CODE],
        "filename": filename,
        "kind": kind,
        "sha": sha,
        "size": size,
        "blob": blob,
        "source": source,
    }
    return Query(SQL["add"], Added, params)


def announce(project_id: int, given: Sequence[Announced]) -> Query[tuple[int, bool]]:
    params = {
        "project_id": project_id,
        "codes": array([each.code for each in given]),
        "case_numbers": array([each.case_number for each in given]),
        "descriptions": array([each.description for each in given]),
    }
    return Query(SQL["announce"], _known, params)


def page(
    project_id: int, *, ids: Sequence[int] | None = None, after: int = 0, limit: int = 1000
) -> Query[ProjectDocument]:
    params = {"project_id": project_id, "ids": None if ids is None else array(ids), "after": after, "limit": limit}
    return Query(SQL["page"], ProjectDocument, params)


def one(id: int) -> Query[ProjectDocument]:
    return Query(SQL["one"], ProjectDocument, {"id": id})


def archive(id: int) -> Query[int]:
    return Query(SQL["archive"], _id, {"id": id})
