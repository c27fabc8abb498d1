"""Books: one summary per chapter, under the contract of safe resume."""
