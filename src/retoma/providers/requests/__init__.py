"""The kinds of request that come with Retoma, one file each."""
