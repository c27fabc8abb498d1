"""The routes of quotes."""
