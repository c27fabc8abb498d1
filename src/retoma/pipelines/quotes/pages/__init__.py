"""The screens of quotes."""
