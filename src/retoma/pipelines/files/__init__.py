"""Files that people send: received, checked, stored, and removed when nothing owns them."""
