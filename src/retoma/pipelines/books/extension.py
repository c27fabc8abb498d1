"""Books as an extension."""

from retoma.app.extension import Extension, Link, Mounted, Offered

BOOKS = Extension(
    name="books",
    pipelines="retoma.pipelines.books.pipeline:PIPELINES",
    migrations="retoma.pipelines.books.migrations",
    api="retoma.pipelines.books.http.sessions:router",
    site=(
        Mounted(router="retoma.pipelines.books.http.original:router"),
        # Before the pages, which take what it leaves: the description has these operations under /api/v1.
        Mounted(router="retoma.pipelines.books.http.named:router", described=False),
        Mounted(router="retoma.pipelines.books.pages.router:router"),
    ),
    links=(Link(path="/books", word="nav.books"),),
    package="retoma.pipelines.books",
    tags={"books": "Books, summed up chapter by chapter under the contract of safe resume."},
    audited={"books": "book", "summarize": "book", "progress": "book", "result": "book"},
    standing="retoma.pipelines.books.standing:KINDS",
    reviews="retoma.pipelines.books.desk:REVIEWS",
    commands={
        "books": Offered(
            command="retoma.pipelines.books.cli:books",
            sentence="Books: summarize, resume, list, show, plan, export, checkpoints.",
        )
    },
)
