"""A PostgreSQL server that Retoma starts and stops by itself."""
