"""What the tests of this room share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # where they find the texts that are meant to hold up a pattern
