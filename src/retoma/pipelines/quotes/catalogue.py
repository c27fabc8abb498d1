"""Projects of quotes, their terms, and what is asked of them: one item, or a list."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model.ids import BatchId
from retoma.pipelines.quotes import batches, indices, projects, requests
from retoma.pipelines.quotes.conditions import Condition
from retoma.pipelines.quotes.images import KeptImage
from retoma.pipelines.quotes.keeping import Keeping, fingerprint_of, shown_by
from retoma.pipelines.quotes.lists import LONGEST_CODE, LONGEST_TEXT, MOST_ITEMS, ItemList, read_list
from retoma.pipelines.quotes.model import BatchItem, LoadedIndex, Project, Quote, QuoteBatch, Terms, Version
from retoma.pipelines.quotes.pipeline import Ordered, process_quote_request
from retoma.pipelines.quotes.pricing.correction import load as read_index
from retoma.pipelines.quotes.progress import as_json
from retoma.pipelines.quotes.report_terms import report_terms
from retoma.pipelines.quotes.requests import NewQuote
from retoma.pipelines.quotes.stages import InputType

DEFAULT_PROJECT = "Cotações"
_TERMS = TypeAdapter(Terms)
_RANGES = {
    "quotes_wanted": (1, 20),
    "max_spread_percent": (1, 500),
    "spread_step": (1, 100),
    "spread_ceiling": (1, 1000),
    "most_products": (1, 500),
    "vehicle_validity_months": (0, 60),
    "max_mismatch_percent": (0, 100),
    "bank_tolerance_percent": (0, 1000),
}


def terms_of(given: Mapping[str, Any]) -> Terms:
    """The terms that *given* says, within their limits; what it does not say is as usual."""
    if unknown := set(given) - set(Terms.__dataclass_fields__):
        raise ConfigurationError(f"The terms of a project have no {', '.join(sorted(unknown))}.")
    try:
        terms = _TERMS.validate_python(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigurationError(f"{'/'.join(map(str, first['loc']))}: {first['msg']}.") from None
    for name, (least, most) in _RANGES.items():
        if not least <= getattr(terms, name) <= most:
            raise ConfigurationError(f"{name} is from {least} to {most}, and was {getattr(terms, name)}.")
    if not 0 < terms.lowest_price < terms.highest_price:
        raise ConfigurationError("lowest_price is more than 0 and less than highest_price.")
    report_terms(terms.report)
    if terms.reais_per_dollar is not None and terms.reais_per_dollar <= 0:
        raise ConfigurationError("reais_per_dollar is more than 0.")
    return terms


class Catalogue(Keeping):
    """Projects, quotes and batches come into being here, on an open app. Where a method takes *conn*, its changes
    commit or roll back with the caller's own.
    """

    # — projects —

    async def projects(self, *, name: str | None = None, limit: int = 200, conn: object = None) -> list[Project]:
        """The projects, newest first."""
        return await self._rows(projects.page(name=name, limit=limit), conn)

    async def project(self, id: int, *, conn: object = None) -> Project:
        """A project, with its present terms."""
        rows = await self._rows(projects.page(id=id), conn)
        if not rows:
            raise NotFound(f"There is no project {id}.")
        return rows[0]

    async def create_project(self, name: str, *, by: str = "person", conn: object = None, **terms: Any) -> Project:
        """A new project; what *terms* does not say is as usual."""
        name = name.strip()
        if not name or len(name) > 200 or "\0" in name:  # noqa: PLR2004 - as long as the name of a batch
            raise ConfigurationError(f"A project has a name of 1 to 200 characters, not {name[:80]!r}.")
        checked = terms_of(terms)
        async with self._within(conn) as connection:
            rows = await self._rows(projects.create(name), connection)
            if not rows:
                raise Conflict(f"There is a project called {name!r} already.", next="Choose another name.")
            await self._rows(projects.configure(rows[0], _stored(checked), by=by), connection)
            return await self.project(rows[0], conn=connection)

    async def change_project(self, id: int, *, by: str = "person", conn: object = None, **terms: Any) -> Project:
        """A new version of the terms; quotes that are there keep theirs."""
        async with self._within(conn) as connection:
            await self._rows(projects.hold(id), connection)
            before = await self.project(id, conn=connection)
            checked = terms_of({**before.terms, **terms})
            if _stored(checked) != _stored(terms_of(before.terms)):
                await self._rows(projects.configure(id, _stored(checked), by=by), connection)
            return await self.project(id, conn=connection)

    async def default_project(self, *, conn: object = None) -> Project:
        """The house's own project, made when it is first asked for."""
        async with self._within(conn) as connection:
            if found := await self.projects(name=DEFAULT_PROJECT, conn=connection):
                return found[0]
            if rows := await self._rows(projects.create(DEFAULT_PROJECT), connection):
                await self._rows(projects.configure(rows[0], _stored(Terms()), by="retoma"), connection)
            return (await self.projects(name=DEFAULT_PROJECT, conn=connection))[0]

    async def versions(self, project_id: int, *, conn: object = None) -> list[Version]:
        """Every version of the terms of a project, the newest first."""
        return await self._rows(projects.versions(project_id), conn)

    async def load_index(self, content: bytes, *, by: str = "person", conn: object = None) -> tuple[LoadedIndex, bool]:
        """The table of a price index in the file *content*, kept as it is; and whether it is new. Reports of projects
        that ask for the index take the newest table; closed ones keep theirs.
        """
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise ConfigurationError("The index table is no text in UTF-8.", next="Save it as UTF-8.") from None
        if "\0" in text:
            raise ConfigurationError("The index table holds signs that are no text.", next="Save it as CSV.")
        table = read_index(text)
        async with self._within(conn) as connection:
            new = await self._rows(indices.put(table, text, by=by), connection)
            return (await self._rows(indices.page(sha256=table.sha256), connection))[0], bool(new)

    async def indices(self, *, index: str | None = None, limit: int = 200) -> list[LoadedIndex]:
        """The tables of price indices that were loaded, the newest first."""
        return await self._rows(indices.page(index=index, limit=limit))

    async def _project(self, id: int | None, conn: object) -> Project:
        return await (self.default_project(conn=conn) if id is None else self.project(id, conn=conn))

    # — one item —

    async def create(
        self,
        text: str = "",
        *,
        code: str | None = None,
        place: str | None = None,
        researcher: str | None = None,
        project_id: int | None = None,
        image: KeptImage | Sequence[KeptImage] | None = None,
        condition: Condition | None = None,
        by: str = "person",
        conn: object = None,
    ) -> int:
        """A quote of one item, by its words, by an *image* that ``keep_image`` has taken or up to five of them, or by
        both; its id. A worker does it. With the *condition* of the asset and the factors of the project its value is
        told beside the price.
        """
        images = shown_by(image)
        text = _checked(text, code, image=bool(images))
        async with self._within(conn) as connection:
            project = await self._project(project_id, connection)
            receipt = await self.app.enqueue(process_quote_request, Ordered(text=text, code=code), conn=connection)
            await self._own(images, connection)
            new = NewQuote(
                job_id=receipt.id,
                text=text,
                code=code,
                place=place or project.terms.get("place"),
                images=images,
                condition=condition,
            )
            rows = await self._rows(
                requests.create(
                    [new],
                    project_id=project.id,
                    config_version_id=project.config_version_id,
                    input_type=InputType.IMAGE if images else InputType.TEXT,
                    researcher=researcher or project.terms.get("researcher"),
                    by=by,
                ),
                connection,
            )
            return rows[0][0]

    async def requote(self, id: int, *, by: str = "person", conn: object = None) -> int:
        """The same item again, with the project's terms of today; once for each quote that failed or was cancelled."""
        async with self._within(conn) as connection:
            await self._rows(requests.hold(id), connection)
            rows = await self._rows(requests.page(id=id), connection)
            if not rows:
                raise NotFound(f"There is no quote {id}.")
            before = rows[0]
            _may_be_requoted(before)
            (given,) = await self._rows(requests.wanted(before.job_id), connection)
            project = await self.project(before.project_id, conn=connection)
            ordered = Ordered(text=before.input_text, code=before.codigo_item)
            # Of two who ask at once the second waits above, gets the job of the first, and is told so.
            receipt = await self.app.enqueue(process_quote_request, ordered, key=f"requote/{id}", conn=connection)
            if not receipt.new:
                raise Conflict(f"Quote {id} was quoted again already.", next="Look at the newer quote.")
            new = NewQuote(
                job_id=receipt.id,
                text=before.input_text,
                code=before.codigo_item,
                place=before.local,
                unit=before.unit,
                quantity=before.quantity,
                images=given.images,
                condition=before.condition,
            )
            made = await self._rows(
                requests.create(
                    [new],
                    project_id=project.id,
                    config_version_id=project.config_version_id,
                    input_type=InputType.IMAGE if given.images else InputType.TEXT,
                    researcher=before.pesquisador,
                    by=by,
                    original_quote_id=id,
                    requote_number=before.requote_number + 1,
                ),
                connection,
            )
            return made[0][0]

    # — lists —

    async def create_batch(
        self,
        content: bytes | ItemList,
        *,
        name: str,
        filename: str = "",
        columns: Mapping[str, str] | None = None,
        project_id: int | None = None,
        researcher: str | None = None,
        at_once: int | None = None,
        pilot: int = 0,
        sha256: str | None = None,
        by: str = "person",
        conn: object = None,
    ) -> tuple[BatchId, bool]:
        """A quote of each item in a list, followed as one; the batch, and whether it is new. The same file with the
        same terms, sent again while it is worked on, is the same batch; *sha256* is that of a file that was read
        before. With a *pilot* so many items are priced first, and the others are held until the batch is released.
        """
        listed = (
            content
            if isinstance(content, ItemList)
            else await asyncio.to_thread(read_list, content, filename=filename, columns=columns)
        )
        sha = sha256 or (hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else fingerprint_of(listed))
        _takeable(listed)
        sort = _sort_of(listed)
        async with self._within(conn) as connection:
            project = await self._project(project_id, connection)
            await self._rows(projects.hold(project.id), connection)  # of two who send a file at once, one makes it
            if sha is not None and (same := await self._rows(batches.same(sha, project.config_version_id), connection)):
                await self.let_go(listed)
                return BatchId(same[0]), False
            id = await self._open(listed, project, name=name, at_once=at_once, conn=connection)
            head = batches.create(
                id,
                project_id=project.id,
                config_version_id=project.config_version_id,
                input_type=sort,
                by=by,
                filename=filename[-200:] or None,
                sha256=sha,
                columns=as_json(listed.columns),
            )
            await self._rows(head, connection)
            await self._fill(id, listed, project, sort=sort, researcher=researcher, by=by, conn=connection)
            await self.app.batches.seal(id, expected=len(listed.items), pilot=pilot, conn=connection)
            return id, True

    async def _open(
        self, listed: ItemList, project: Project, *, name: str, at_once: int | None, conn: object
    ) -> BatchId:
        options: dict[str, Any] = {} if at_once is None else {"at_once": at_once}
        batch = await self.app.batches.open(
            process_quote_request,
            name=(name.strip() or project.name)[:200],
            conn=conn,
            route="/cotacoes/",
            labels={"project": str(project.id)},
            configuration={"config_version_id": project.config_version_id, "items": len(listed.items)},
            **options,
        )
        return batch.id

    async def _fill(
        self,
        id: BatchId,
        listed: ItemList,
        project: Project,
        *,
        sort: InputType,
        researcher: str | None,
        by: str,
        conn: object,
    ) -> None:
        orders = [Ordered(text=each.text, code=each.code) for each in listed.items]
        lines = iter(listed.items)
        receipts = await self.app.batches.fill(
            id, process_quote_request, orders, key=lambda _: str(next(lines).line), conn=conn
        )
        for item in listed.items:
            await self._own(item.kept, conn)
        new = [
            NewQuote(
                job_id=receipt.id,
                text=item.text,
                code=item.code,
                place=item.place or project.terms.get("place"),
                unit=item.unit,
                quantity=item.quantity,
                images=item.kept,
                condition=item.condition,
                index=index,
            )
            for index, (item, receipt) in enumerate(zip(listed.items, receipts, strict=True))
        ]
        rows = await self._rows(
            requests.create(
                new,
                project_id=project.id,
                config_version_id=project.config_version_id,
                input_type=sort,
                researcher=researcher or project.terms.get("researcher"),
                by=by,
                batch_id=id,
            ),
            conn,
        )
        quote_of = {index: quote for quote, index in rows}
        await self._rows(batches.put_items(id, _items(listed, quote_of)), conn)

    async def batches(
        self, *, project_id: int | None = None, before: int | None = None, limit: int = 50
    ) -> list[QuoteBatch]:
        """The lists that were sent, newest first."""
        return await self._rows(batches.page(project_id=project_id, before=before, limit=limit))

    async def batch(self, id: int, *, conn: object = None) -> QuoteBatch:
        """A list as it was sent."""
        rows = await self._rows(batches.page(id=id), conn)
        if not rows:
            raise NotFound(f"There is no batch of quotes {id}.")
        return rows[0]

    async def items(
        self, id: int, *, after: int = 0, only_problems: bool = False, limit: int = 1000
    ) -> list[BatchItem]:
        """What became of each row of a list, *after* a line for the next page."""
        return await self._rows(batches.items(id, after=after, only_problems=only_problems, limit=limit))


def _stored(terms: Terms) -> str:
    return as_json(_TERMS.dump_python(terms, mode="json"))


def _checked(text: str, code: str | None, *, image: bool) -> str:
    text = " ".join(text.split())
    if (not text and not image) or len(text) > LONGEST_TEXT or "\0" in text:
        raise ConfigurationError(
            f"An item is described in 1 to {LONGEST_TEXT:,} characters.", next="Say what it is in a few words."
        )
    if code is not None and (len(code) > LONGEST_CODE or "\0" in code):
        raise ConfigurationError(f"A code has at most {LONGEST_CODE} characters.")
    return text


def _may_be_requoted(quote: Quote) -> None:
    if quote.status not in ("ERROR", "CANCELLED"):
        raise Conflict(
            f"Quote {quote.id} is {quote.status}; only one that failed or was cancelled is quoted again.",
            next="Ask for a new quote of the item.",
        )


def _sort_of(listed: ItemList) -> InputType:
    """How a list came: as a file with a head, as images, or as text."""
    if listed.headers:
        return InputType.FILE_BATCH
    return InputType.IMAGE_BATCH if any(each.kept for each in listed.items) else InputType.TEXT_BATCH


def _takeable(listed: ItemList) -> None:
    if not listed.items:
        bad = len(listed.problems)
        told = f"The list has no items. {bad} rows have a problem." if bad else "The list has no items."
        raise ConfigurationError(told, next="Correct the rows, and send it again.")
    if len(listed.items) > MOST_ITEMS:
        raise ConfigurationError(f"The list has more than {MOST_ITEMS:,} items.", next="Send it in parts.")


def _items(listed: ItemList, quote_of: Mapping[int | None, int]) -> Sequence[BatchItem]:
    taken = [BatchItem(each.line, quote_of[index], None, None, None) for index, each in enumerate(listed.items)]
    told = [BatchItem(each.line, None, each.reason, each.message, each.text) for each in listed.problems]
    return taken + told
