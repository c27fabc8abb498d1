"""What a reader sees of books."""
