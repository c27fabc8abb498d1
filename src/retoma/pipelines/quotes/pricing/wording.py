"""The words of a report, which its readers know: those of Brazilian public bodies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from retoma.pipelines.quotes.ports import Evidence, Refusal, SourceKind
from retoma.pipelines.quotes.pricing.pages import NO_PAGE
from retoma.pipelines.quotes.pricing.report import Line, Report, Source
from retoma.pipelines.quotes.pricing.screenshots import NO_BROWSER
from retoma.pipelines.quotes.pricing.statistics import Central, Discard

KINDS = {
    SourceKind.OFFICIAL: "Sistema oficial de preços",
    SourceKind.CONTRACT: "Contratação pública similar",
    SourceKind.TABLE: "Tabela de referência",
    SourceKind.SHOP: "Sítio eletrônico de domínio amplo",
    SourceKind.SUPPLIER: "Cotação direta com fornecedor",
    SourceKind.INVOICE: "Nota fiscal eletrônica",
    SourceKind.BANK: "Banco de preços próprio",
}
CENTRALS = {Central.MEAN: "Média", Central.MEDIAN: "Mediana", Central.LOWEST: "Menor preço"}
DISCARDS = {
    Discard.OUTLIER: "Inconsistente com os demais",
    Discard.UNFEASIBLE: "Inexequível",
    Discard.EXCESSIVE: "Excessivamente elevado",
}
REFUSALS = {
    Refusal.TIMEOUT: "A página não respondeu a tempo",
    Refusal.PRICE_MISMATCH: "Preço da página difere do anunciado",
    Refusal.EXTRACTION_FAILED: "Preço não identificado",
    Refusal.INVALID_PRICE: "Preço fora dos limites",
    Refusal.PAGE_LOAD: "Página indisponível",
    Refusal.SCREENSHOT: "Sem captura de tela",
    Refusal.BLOCKED_BY_SITE: "Bloqueado pelo site",
    Refusal.NETWORK: "Site inacessível",
    Refusal.NO_STORE_LINK: "Sem endereço da loja",
    Refusal.BLOCKED_DOMAIN: "Loja excluída pelas regras",
    Refusal.FOREIGN_DOMAIN: "Loja estrangeira",
    Refusal.LISTING_PAGE: "Página de listagem",
    Refusal.DUPLICATE_DOMAIN: "Loja já considerada",
    Refusal.SPEC_MISMATCH: "Especificação divergente",
    Refusal.INSTALMENT_PRICE: "Preço de parcela",
    Refusal.OLD_PRICE: "Preço antigo (riscado)",
    Refusal.FOREIGN_CURRENCY: "Moeda estrangeira",
    Refusal.SOLD_OUT: "Produto esgotado",
    Refusal.TOO_OLD: "Preço fora do prazo ou sem data",
    Refusal.OUTSIDE_BLOCK: "Fora do bloco escolhido",
    Refusal.BY_PERSON: "Recusado pelo pesquisador",
    Refusal.OTHER: "Outro motivo",
}
NO_PICTURES = {
    NO_BROWSER: "não há Chromium nesta máquina",
    NO_PAGE: "a resposta do serviço não é uma página",
}


def reais(amount: Decimal | None) -> str:
    """An amount of money as Brazilians write it."""
    return "–" if amount is None else f"R$ {amount:,.2f}".translate(str.maketrans(",.", ".,"))


def percent(amount: Decimal | None) -> str:
    """A percentage as Brazilians write it."""
    return "–" if amount is None else f"{amount.normalize():f} %".replace(".", ",")


def moment(at: datetime | None) -> str:
    """Date and hour, with the zone."""
    return "–" if at is None else at.strftime("%d/%m/%Y %H:%M:%S ") + (at.tzname() or "")


def reason(line: Line, source: Source) -> str:
    """Why a price does not count; empty for one that does. What a person wrote stands there in full."""
    if line.counts:
        return ""
    told = DISCARDS[line.discarded] if line.discarded else REFUSALS[line.refused or Refusal.OTHER]
    if not source.by:
        return told
    return f"{told}: {source.reason} ({source.by})" if source.reason else f"{told} ({source.by})"


def no_picture(evidence: Evidence) -> str:
    """Why a piece of evidence has no picture."""
    return NO_PICTURES.get(evidence.without_screenshot or "", "a captura falhou")


def header(report: Report) -> Iterator[tuple[str, str]]:
    """What a report says about itself: object, who, when, method, thresholds."""
    research, rules = report.research, report.research.rules
    yield "Objeto", research.object
    if research.code:
        yield "Código do item", research.code
    for name, told in research.specifications.items():
        yield f"Especificação: {name}", told
    if research.query:
        yield "Consulta", research.query
    yield "Unidade e quantidade", f"{f'{research.quantity.normalize():f}'.replace('.', ',')} {research.unit}"
    if research.place:
        yield "Local", research.place
    yield "Pesquisador(a)", research.researcher
    yield "Data e hora da pesquisa", moment(research.researched_at)
    if research.legal_basis:
        yield "Fundamento", research.legal_basis
    yield "Método", CENTRALS[rules.central]
    yield "Mínimo de preços", str(rules.least)
    yield "Regra de discrepantes", _outliers(report)
    base = "da média dos demais" if rules.compared_with == "mean_of_others" else "da mediana"
    yield "Inexequível abaixo de", f"{percent(rules.unfeasible_percent)} {base}"
    yield "Excessivo acima de", f"{percent(rules.excessive_percent)} {base}"
    yield "CV que exige análise crítica", percent(rules.high_cv_percent)
    ages = sorted(research.max_days.items())
    yield "Prazo por tipo de fonte", "; ".join(f"{KINDS[kind]}: {days} dias" for kind, days in ages)
    index = research.index
    yield "Índice de correção", f"{index.index}, {index.source}, {index.dated:%d/%m/%Y}" if index else "não aplicado"
    if research.configuration:
        yield "Versão da configuração", research.configuration
    if research.suppliers_chosen_because:
        yield "Escolha dos fornecedores", research.suppliers_chosen_because


def _outliers(report: Report) -> str:
    rules = report.research.rules
    match rules.outliers:
        case "iqr":
            return f"fora de {rules.iqr_factor} × a distância entre quartis"
        case "median":
            return f"a mais de {percent(rules.median_percent)} da mediana"
    return "nenhuma"


def column(line: Line, source: Source) -> Iterator[tuple[str, str]]:
    """What the column of a source says."""
    evidence = source.evidence
    yield "Tipo", KINDS[source.kind]
    yield "Fonte", " / ".join(filter(None, (source.provider, source.seller or source.domain)))
    yield "Produto", source.title
    yield "CNPJ", source.detail.get("cnpj", "–")
    yield "Endereço", source.url or (evidence.url if evidence else "–")
    yield "Data do preço", f"{source.dated:%d/%m/%Y}" if source.dated else "–"
    yield "Acesso", moment(evidence.captured_at if evidence else None)
    yield "Leitura", source.method.value
    yield "Preço nominal", reais(source.price) if source.currency == "BRL" else f"{source.currency} {source.price}"
    yield "Preço corrigido", reais(line.correction.corrected) if line.correction else "–"
    yield "Situação", "Considerado" if line.counts else "Descartado"
    yield "Motivo", reason(line, source) or "–"
    yield "SHA-256 da evidência", evidence.sha256 if evidence else "–"
    yield (
        "SHA-256 da captura",
        (evidence.screenshot_sha256 or f"sem captura: {no_picture(evidence)}") if evidence else "–",
    )


def results(report: Report) -> Iterator[tuple[str, str]]:
    """The figures of a report."""
    for name, told in (("coletados", report.collected), ("considerados", report.figures)):
        if told:
            yield f"Preços {name}", str(told.count)
            yield f"Média ({name})", reais(told.mean)
            yield f"Mediana ({name})", reais(told.median)
            yield f"Menor ({name})", reais(told.lowest)
            yield f"Maior ({name})", reais(told.highest)
            yield f"Coeficiente de variação ({name})", percent(told.cv_percent)
            yield f"Variação entre menor e maior ({name})", percent(told.spread_percent)
    yield "Resultado unitário", reais(report.result)
    yield "Total", reais(report.total)
    if worth := report.valuation:
        yield "Valor do bem", reais(worth.value)
        movements = {"REVALUATION": "Reavaliação", "IMPAIRMENT": "Redução ao valor recuperável", "NONE": "Sem ajuste"}
        if worth.movement:
            yield "Movimento contábil", f"{movements[worth.movement]} ({reais(worth.difference)})"
