"""How right the offline providers are: labelled texts, made files, and what is measured on them."""
