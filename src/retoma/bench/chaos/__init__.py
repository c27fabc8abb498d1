"""``retoma chaos``: workers under kills, freezes and cuts, and the count of what became of their jobs."""
