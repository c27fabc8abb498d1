"""The tables of books, revision by revision."""
