"""Price quotes: an item is understood, searched for, and its price pages are read; no stage is paid twice."""
