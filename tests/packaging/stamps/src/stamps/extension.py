"""Stamps as an extension."""

from retoma.app.extension import Extension, Link, Mounted, Offered

STAMPS = Extension(
    name="stamps",
    pipelines="stamps.pipeline:PIPELINES",
    migrations="stamps.migrations",
    api="stamps.http:router",
    site=(Mounted(router="stamps.pages:router"),),
    links=(Link(path="/stamps", word="nav.stamps"),),
    package="stamps",
    tags={"stamps": "Letters that got a number."},
    audited={"stamps": "stamp"},
    commands={"stamps": Offered(command="stamps.cli:stamps", sentence="Stamps: put, list.")},
    checks="stamps.health:check",
)
