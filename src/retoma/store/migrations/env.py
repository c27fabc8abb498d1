"""Runs our revisions with Alembic: on the connection it is given, or as text. Each revision is one transaction."""

from typing import Any

from alembic import context

config = context.config
connection = config.attributes.get("connection")
schema = config.attributes["schema"]


def mark(*, ctx: Any, heads: set[str], **_: Any) -> None:
    """Write beside the revision which programs its tables serve, for programs that do not know the revision."""
    said = "null"
    for revision in heads:
        module = context.script.get_revision(revision).module
        # A revision without ``serves`` serves only programs that know it.
        said = f"'serves {getattr(module, 'serves', revision)}'"
    ctx.execute(f"comment on table {schema}.alembic_version is {said}")


options: dict[str, Any] = {
    "version_table": "alembic_version",
    "version_table_schema": schema,
    "transaction_per_migration": True,
    "on_version_apply": mark,
}

if context.is_offline_mode():
    context.configure(url=config.attributes["url"], literal_binds=True, **options)
    with context.begin_transaction():
        context.execute(f"create schema if not exists {schema}")
        context.run_migrations()
else:
    context.configure(connection=connection, **options)
    with context.begin_transaction():
        context.run_migrations()
