"""Invented office papers in Portuguese and English: the same number always gives the same text."""

from __future__ import annotations

from pathlib import Path
from random import Random

_PARAGRAPHS = 22
_SENTENCES = 7

_SUBJECTS = {
    "pt": {
        "contrato": "cláusula aditivo vigência multa rescisão fornecedor garantia reajuste assinatura prazo",
        "fatura": "parcela vencimento boleto desconto imposto nota pagamento juros cobrança saldo",
        "reunião": "pauta ata deliberação votação quórum encaminhamento comissão presença acordo debate",
        "estoque": "almoxarifado inventário lote embalagem reposição transporte depósito etiqueta avaria remessa",
        "manutenção": "elevador vistoria reparo peça técnico laudo instalação vazamento pintura orçamento",
        "treinamento": "turma apostila instrutor certificado avaliação presença módulo carga inscrição oficina",
    },
    "en": {
        "contract": "clause amendment term penalty notice supplier warranty adjustment signature deadline",
        "invoice": "instalment deadline receipt discount tax payment interest balance refund ledger",
        "meeting": "agenda minutes motion ballot quorum committee attendance agreement debate proposal",
        "warehouse": "inventory batch pallet packaging restock transport depot label damage shipment",
        "maintenance": "elevator inspection repair valve technician report installation leak painting estimate",
        "training": "class handbook instructor certificate assessment module workshop enrolment lecture exercise",
    },
}
_OFFICES = {
    "pt": "A diretoria|O setor de compras|A tesouraria|A secretaria|O protocolo|A equipe de campo|O arquivo",
    "en": "The board|The purchasing office|The treasury|The front desk|The registry|The field team|The archive",
}
_SENTENCE = {
    "pt": (
        "{office} recebeu {a} e {b} relativos a {subject}, com prazo de {number} dias.",
        "Conferidos {a} e {b}, ficou pendente {c}, conforme o registro {number}.",
        "{office} informa que {subject} depende de {a} e que {b} já foi enviado.",
        "Sobre {subject}, solicita-se {a} antes de {b}; o processo {number} aguarda {c}.",
        "Não houve {a} no período, mas {b} e {c} foram revistos {number} vezes.",
        "{office} devolveu {a} por falta de {b} e abriu o chamado {number}.",
        "O relatório de {subject} mostra {a}, {b} e {c} em {number} unidades.",
    ),
    "en": (
        "{office} received {a} and {b} about the {subject}, due within {number} days.",
        "With {a} and {b} checked, {c} is still missing, as entry {number} shows.",
        "{office} reports that the {subject} depends on {a} and that {b} was sent.",
        "On the {subject}, please provide {a} before {b}; file {number} waits for {c}.",
        "There was no {a} in this period, but {b} and {c} were revised {number} times.",
        "{office} returned {a} for lack of {b} and opened ticket {number}.",
        "The report on the {subject} lists {a}, {b} and {c} in {number} units.",
    ),
}


def invent(number: int) -> str:
    """The text of document *number*."""
    chance = Random(number)  # noqa: S311 - invented papers need no secrecy
    language = ("pt", "en")[number % 2]
    main, aside = chance.sample(sorted(_SUBJECTS[language]), 2)
    paragraphs = []
    for _ in range(_PARAGRAPHS):
        subject = chance.choices((main, aside), (4, 1))[0]
        paragraphs.append(" ".join(_sentence(chance, language, subject) for _ in range(_SENTENCES)))
    return f"{main.capitalize()} {number:04}\n\n" + "\n\n".join(paragraphs) + "\n"


def _sentence(chance: Random, language: str, subject: str) -> str:
    a, b, c = chance.sample(_SUBJECTS[language][subject].split(), 3)
    return chance.choice(_SENTENCE[language]).format(
        office=chance.choice(_OFFICES[language].split("|")),
        subject=subject,
        a=a,
        b=b,
        c=c,
        number=chance.randint(2, 90),
    )


def write(folder: Path, documents: int) -> list[Path]:
    """Put that many texts into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:04}.txt" for number in range(1, documents + 1)]
    for number, path in enumerate(paths, start=1):
        path.write_text(invent(number), encoding="utf-8")
    return paths
