"""The connection to PostgreSQL: pool, retries, deadlines, notifications, migrations, roles."""
