"""Embeddings: texts by their content, each embedded once."""
