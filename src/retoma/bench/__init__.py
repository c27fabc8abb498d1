"""Our own figures: speed (``plan.py``), and how right the offline providers are (``evaluation/``)."""
