"""Classification: batches of documents, each told its kind."""
