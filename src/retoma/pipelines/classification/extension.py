"""Classification as an extension."""

from retoma.app.extension import Extension, Link, Mounted, Offered

_ROUTES = "retoma.pipelines.classification.http.executions:router"

CLASSIFICATION = Extension(
    name="classification",
    pipelines="retoma.pipelines.classification.pipeline:PIPELINES",
    migrations="retoma.pipelines.classification.migrations",
    site=(
        Mounted(router="retoma.pipelines.classification.pages.router:router"),
        Mounted(router=_ROUTES, prefix="/classificador/api"),
        # Where its first users knew the routes; described once.
        Mounted(router=_ROUTES, described=False),
    ),
    links=(Link(path="/classificador/", word="nav.classification"),),
    package="retoma.pipelines.classification",
    tags={"classification": "Lots of documents, each told its kind, in the words of the classifier's users."},
    audited={
        "prompts": "prompt",
        "projetos": "project",
        "lotes": "project",
        "codigos": "code",
        "execucoes": "batch",
        "exemplos": "example",
        "watchdog": "watchdog",
        "classificar-avulso": "trial",
        "teste": "trial",
    },
    standing="retoma.pipelines.classification.standing:KINDS",
    reviews="retoma.pipelines.classification.reviews:REVIEWS",
    replans="/classificador/execucoes/{id}#replan",
    commands={
        "classify": Offered(
            command="retoma.pipelines.classification.cli:classify",
            sentence="Tell the kind of every document in a folder.",
            section="Start here",
        )
    },
)
