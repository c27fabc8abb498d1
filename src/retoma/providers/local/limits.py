"""How large a document may be before we stop reading it. Counted while reading, never taken from its own word."""

from __future__ import annotations

PAGES = 5_000
PIXELS = 50_000_000
"""Of one picture, or of one page made into a picture: 7,000 × 7,000."""

TEXT = 50_000_000
"""Characters in all; a shelf of thirty novels has fewer."""

OUTLINE = 5_000
TABLE_CELLS = 2_000_000

MEMBERS = 10_000
"""Files in an archive."""

UNPACKED = 300_000_000
"""Bytes of an archive, all its files unpacked."""

RATIO = 200
"""How many bytes one packed byte may become; XML that repeats itself reaches 50."""

RATIO_FROM = 1_000_000
"""Unpacked bytes of a whole archive, below which the ratio harms nobody."""

READ_MEGABYTES = 1_024
OCR_MEGABYTES = 3_072
"""Address space: the models take 0.8 GB, and their threads reserve more than they touch."""
