"""Embeddings as an extension."""

from retoma.app.extension import Extension, Offered

EMBEDDINGS = Extension(
    name="embeddings",
    pipelines="retoma.pipelines.embeddings.pipeline:PIPELINES",
    api="retoma.pipelines.embeddings.http:router",
    package="retoma.pipelines.embeddings",
    tags={"embeddings": "Texts, found by what they mean."},
    audited={"embeddings": "embedding"},
    commands={
        "embeddings": Offered(
            command="retoma.pipelines.embeddings.cli:embeddings",
            sentence="Embeddings: add, status, search, show.",
        )
    },
    checks="retoma.pipelines.vectors_health:check",
)
