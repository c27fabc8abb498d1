"""The words of exports, in both languages."""

from __future__ import annotations

_WORDS = {
    "pt": {
        "summary": "Resumo",
        "executive": "O livro em uma página",
        "contents": "Índice",
        "points": "Pontos-chave",
        "quotations": "Citações",
        "examples": "Exemplos",
        "page": "p. {page}",
        "made_from": "De que é feito",
        "read": "{read} de {pages} páginas lidas.",
        "read_words": "{words} palavras lidas em {chapters} capítulos.",
        "left_out": "Fora do resumo",
        "left_out_item": "{kind}: {words} palavras",
        "passed": "Cobertura verificada: todos os capítulos foram lidos por inteiro.",
        "failed": "A cobertura não foi verificada em todos os capítulos.",
        "chapter_failed": "Este capítulo não passou na verificação.",
        "by": "Resumo de uma obra de {author}",
        "front matter": "páginas iniciais",
        "notes": "notas",
        "back matter": "páginas finais",
        "licence": "licença",
        "part title": "título de parte",
        "contents page": "índice",
        "by hand": "deixado de fora por você",
    },
    "en": {
        "summary": "Summary",
        "executive": "The book on one page",
        "contents": "Contents",
        "points": "Key points",
        "quotations": "Quotations",
        "examples": "Examples",
        "page": "p. {page}",
        "made_from": "What this is made from",
        "read": "{read} of {pages} pages read.",
        "read_words": "{words} words read in {chapters} chapters.",
        "left_out": "Left out",
        "left_out_item": "{kind}: {words} words",
        "passed": "Coverage checked: every chapter was read whole.",
        "failed": "Coverage was not checked in every chapter.",
        "chapter_failed": "This chapter did not pass its check.",
        "by": "A summary of a work by {author}",
        "front matter": "front matter",
        "notes": "notes",
        "back matter": "back matter",
        "licence": "licence",
        "part title": "title of a part",
        "contents page": "contents",
        "by hand": "left out by you",
    },
}


def word(language: str, name: str, **values: object) -> str:
    """A word or sentence in *language*, English where we do not speak it."""
    return _WORDS.get(language, _WORDS["en"])[name].format(**values)


def kind(language: str, name: str) -> str:
    """What a part that is left out is called."""
    return word(language, "contents page" if name == "contents" else name)
