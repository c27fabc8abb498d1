"""How much of a chapter was read. Nothing counts as read but the very text of a chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retoma.pipelines.books.ports import Chapter, Coverage, RecallItem
from retoma.pipelines.books.text.chunks import Chunk, cut
from retoma.pipelines.books.text.sentences import Sentence, owners, sentences_of


def measure(
    chapter: Chapter,
    read: Mapping[int, str],
    items: Sequence[RecallItem] = (),
    *,
    sentences: Sequence[Sentence] | None = None,
) -> Coverage:
    """What of *chapter* was read: *read* are the texts that were given to a reader, by the index of their chunk.

    A chunk that was cut short or changed was not read. Each sentence belongs to one chunk, the first that has all of
    it, and is read when that chunk is.
    """
    chunks = cut(chapter.text)
    done = [chunk for chunk in chunks if read.get(chunk.index) == chunk.text]
    indexes = {chunk.index for chunk in done}
    all_sentences = sentences_of(chapter.text) if sentences is None else sentences
    own = owners(all_sentences, chunks)
    return Coverage(
        total_chunks=len(chunks),
        processed_chunks=len(done),
        sentences=len(all_sentences),
        read_sentences=sum(owner in indexes for owner in own),
        unread=_unread(chapter.text, chunks, done),
        items=tuple(items),
    )


def _unread(text: str, chunks: Sequence[Chunk], done: Sequence[Chunk]) -> tuple[tuple[int, int], ...]:
    """The spans of *text* that stand in no chunk that is *done*."""
    if not chunks:
        return ()
    found, place = [], chunks[0].start
    for chunk in done:
        if chunk.start > place and text[place : chunk.start].strip():
            found.append((place, chunk.start))
        place = max(place, chunk.end)
    if text[place:].strip():
        found.append((place, len(text)))
    return tuple(found)
