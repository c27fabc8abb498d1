"""Limits on the size of documents. They are counted while reading, never taken from what the document declares."""

from __future__ import annotations

PAGES = 5_000
PIXELS = 50_000_000
"""Of one picture, or of one rendered page: 7,000 × 7,000."""

TEXT = 50_000_000
"""Characters in total; thirty novels have fewer."""

OUTLINE = 5_000
TABLE_CELLS = 2_000_000

MEMBERS = 10_000
"""Files in an archive."""

UNPACKED = 300_000_000
"""Bytes of an archive, all its files unpacked."""

RATIO = 200
"""How many bytes one packed byte may become; repetitive XML reaches 50."""

RATIO_FROM = 1_000_000
"""Unpacked bytes of a whole archive below which any ratio is harmless."""

READ_MEGABYTES = 1_024
OCR_MEGABYTES = 3_072
"""Address space: the models take 0.8 GB, and their threads reserve more than they use."""
