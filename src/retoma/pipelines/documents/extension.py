"""Documents as an extension."""

from retoma.app.extension import Extension, Link, Mounted, Offered

DOCUMENTS = Extension(
    name="documents",
    pipelines="retoma.pipelines.documents.pipeline:PIPELINES",
    site=(Mounted(router="retoma.pipelines.documents.http:router"),),
    links=(Link(path="/documents", word="nav.documents"),),
    package="retoma.pipelines.documents",
    tags={"documents": "Files that were sent: read, cut, searched."},
    audited={"documents": "document"},
    standing="retoma.pipelines.documents.standing:KINDS",
    commands={
        "documents": Offered(
            command="retoma.pipelines.documents.cli:documents",
            sentence="Documents: ingest, list, search, show, reprocess, remove.",
        )
    },
    checks="retoma.pipelines.vectors_health:check",
)
