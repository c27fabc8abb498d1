"""How Alembic runs our revisions: on the connection it is given, or as text."""

from typing import Any

from alembic import context

config = context.config
connection = config.attributes.get("connection")
options: dict[str, Any] = {"version_table": "alembic_version", "version_table_schema": "retoma"}

if context.is_offline_mode():
    context.configure(url=config.attributes["url"], literal_binds=True, **options)
    with context.begin_transaction():
        context.execute("create schema if not exists retoma")
        context.run_migrations()
else:
    context.configure(connection=connection, **options)
    with context.begin_transaction():
        context.run_migrations()
