"""The engine's SQL, and the only room that has any: one module per noun, one function per named block."""
