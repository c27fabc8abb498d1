"""The text side of books: pure functions from a document to chapters, and from a chapter to what is said of it.

`plan` finds the chapters, `edits` changes that list, `chunks` cuts a chapter, `summary` sums it up, `recall` says what
a summary must not miss, `audit` checks it, `coverage` measures what was read, `executive` sums up the book, `prompts`
asks a model for the same, `exports` and `epub` write a finished book. Nothing here opens a file or a connection.
"""
