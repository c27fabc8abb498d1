"""The label sets that the held-out texts are judged with: names alone, and names with a description."""

from __future__ import annotations

from collections.abc import Mapping

from retoma.pipelines.classification.labels import house_labels
from retoma.providers import Label

__all__ = ["kinds", "topics"]

_ENGLISH = {
    "petição": "petition",
    "sentença": "court decision",
    "contrato": "contract",
    "procuração": "power of attorney",
    "nota fiscal": "invoice",
    "ata": "minutes of a meeting",
    "laudo": "expert report",
    "currículo": "resume",
    "ofício": "official letter",
    "parecer": "opinion",
    "edital": "public notice",
    "recibo": "receipt",
}
"""How somebody who reads English would name the kinds of the house."""

_TOPICS: Mapping[str, Mapping[str, str]] = {
    "pt": {
        "esporte": "Jogos, times, atletas, campeonatos e resultados de competições.",
        "economia": "Preços, juros, empresas, empregos, bolsa, impostos e contas públicas.",
        "política": "Governo, congresso, partidos, eleições, leis em votação e diplomacia.",
        "saúde": "Doenças, hospitais, médicos, remédios, vacinas e bem-estar.",
        "tecnologia": "Computadores, aplicativos, internet, aparelhos e inteligência artificial.",
        "cultura": "Cinema, música, livros, teatro, museus e artes.",
    },
    "en": {
        "sports": "Games, teams, athletes, championships and results.",
        "business": "Prices, interest rates, companies, jobs, markets, trade and taxes.",
        "politics": "Government, parliament, parties, elections, bills and diplomacy.",
        "health": "Diseases, hospitals, doctors, drugs, vaccines and well-being.",
        "technology": "Computers, apps, the internet, devices and artificial intelligence.",
        "culture": "Film, music, books, theatre, museums and the arts.",
    },
}


def kinds(language: str, *, described: bool) -> dict[str, Label]:
    """By the kind of a text the label it should get: those of the house, or their names in the text's language."""
    if described:
        return {each.name: each for each in house_labels()}
    return {each.name: Label(name=each.name if language == "pt" else _ENGLISH[each.name]) for each in house_labels()}


def topics(language: str, *, described: bool) -> dict[str, Label]:
    """By topic the label that its texts should get."""
    return {
        name: Label(name=name, description=description if described else "")
        for name, description in _TOPICS[language].items()
    }
