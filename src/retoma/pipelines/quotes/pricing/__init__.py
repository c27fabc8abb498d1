"""Prices and their evidence: sources, pages, figures, reports. Nothing here knows jobs or tables."""
