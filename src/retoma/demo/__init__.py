"""The demo: sample documents, the ready classification pipeline, everything that can go wrong, and the count of it."""
