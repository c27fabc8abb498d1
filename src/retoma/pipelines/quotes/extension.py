"""Quotes as an extension."""

from retoma.app.extension import Extension, Link, Mounted, Offered

QUOTES = Extension(
    name="quotes",
    pipelines="retoma.pipelines.quotes.pipeline:PIPELINES",
    migrations="retoma.pipelines.quotes.migrations",
    site=(
        Mounted(router="retoma.pipelines.quotes.http.desk:router", prefix="/api/system"),
        Mounted(router="retoma.pipelines.quotes.http.quotes:router"),
        Mounted(router="retoma.pipelines.quotes.http.batches:router"),
        Mounted(router="retoma.pipelines.quotes.http.bank:router"),
        Mounted(router="retoma.pipelines.quotes.pages.router:router"),
    ),
    links=(Link(path="/cotacoes/", word="nav.quotes"),),
    package="retoma.pipelines.quotes",
    tags={"quotes": "Prices of items, each with its evidence; and the desk for those that are stuck."},
    audited={
        "recover-stuck": "quote",
        "recover-quote": "quote",
        "cleanup-old": "quote",
        "resume-batch": "batch",
        "quotes": "quote",
        "batch-quotes": "batch",
        "price-bank": "vehicle",
        "banco": "vehicle",
        "updates": "bank-update",
        "decisoes": "bank-update",
        "itens": "quote",
        "listas": "batch",
    },
    standing="retoma.pipelines.quotes.standing:KINDS",
    reviews="retoma.pipelines.quotes.desk:REVIEWS",
    commands={
        "quotes": Offered(
            command="retoma.pipelines.quotes.cli:quotes", sentence="Prices of items: run, show, export, verify."
        ),
    },
)
