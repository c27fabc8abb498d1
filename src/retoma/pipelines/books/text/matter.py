"""What stands in a book and is no chapter: contents, front matter, notes, back matter, licence texts."""

from __future__ import annotations

import re

from retoma.pipelines.books.text.lines import Lines
from retoma.pipelines.books.text.numerals import fold

_KINDS = {
    "contents": (
        "sumario", "indice", "indice geral", "conteudo", "tabela de conteudos", "indice dos capitulos",
        "indice de capitulos", "contents", "table of contents", "list of chapters",
    ),
    "notes": (
        "notas", "notas de rodape", "notas finais", "notas do autor", "notas do editor", "notas do tradutor", "nota",
        "notes", "endnotes", "footnotes", "author's notes", "translator's notes",
    ),
    "front matter": (
        "dedicatoria", "dedication", "epigrafe", "epigraph", "agradecimentos", "acknowledgments", "acknowledgements",
        "ficha catalografica", "ficha tecnica", "creditos", "credits", "copyright", "nota do editor",
        "nota do tradutor", "nota editorial", "nota da edicao", "nota sobre a edicao", "nota de edicao",
        "expediente", "capa", "cover", "folha de rosto", "title page", "copyright page", "transcriber's note",
        "transcriber's notes", "nota do transcritor", "nota de editor",
    ),
    "back matter": (
        "bibliografia", "referencias", "referencias bibliograficas", "bibliography", "references", "works cited",
        "indice remissivo", "indice onomastico", "index", "sobre o autor", "sobre a autora", "about the author",
        "colofao", "colophon", "obras do autor", "obras da autora", "do mesmo autor", "da mesma autora",
        "by the same author", "also by the author", "errata", "erratas", "glossario", "glossary",
        "lista de figuras", "list of figures", "lista de ilustracoes", "list of illustrations",
    ),
    "licence": (
        "licenca", "licenca de uso", "license", "licence", "full license", "the full project gutenberg license",
        "termos de uso", "terms of use", "direitos autorais", "informacoes legais", "legal notice", "aviso legal",
        "start: full license", "the full project gutenberg™ license",
    ),
}  # fmt: skip
_TITLES = {title: kind for kind, titles in _KINDS.items() for title in titles}
_LEGAL = re.compile(
    r"project gutenberg|creative commons|all rights reserved|direitos reservados|licen[scç]|copyright|"
    r"warrant|trademark|redistribut|isbn|royalt|liabilit|vedada a reprodu|cc by"
)
_LEGAL_SHARE, _LEGAL_TIMES = 1 / 50, 3
_STARTS = ("*** start of", "***start of")
_ENDS = ("*** end of", "***end of", "end of the project gutenberg", "end of project gutenberg")
_LONGEST = 60


def kind_of(title: str) -> str:
    """What a part of a book with this *title* is when it is no chapter; empty when nothing speaks against it."""
    if len(title) > _LONGEST:
        return ""
    bare = fold(title).strip("#*_ .:-–—[]\t").replace("’", "'")
    return _TITLES.get(bare, "")


def is_start_of_work(line: str) -> bool:
    """Whether the work begins below *line* and what stands above is the library's."""
    return fold(line[:_LONGEST]).strip().startswith(_STARTS)


def is_end_of_work(line: str) -> bool:
    """Whether the work has ended above *line*."""
    return fold(line[:_LONGEST]).strip().startswith(_ENDS)


def is_licence(lines: Lines, start: int, end: int) -> bool:
    """Whether the lines from *start* to before *end* speak of rights more than of anything else."""
    count = lines.words(start, end)
    if not count:
        return False
    times = sum(len(_LEGAL.findall(lines[place].text.lower())) for place in range(start, end))
    return times >= _LEGAL_TIMES and times / count >= _LEGAL_SHARE
