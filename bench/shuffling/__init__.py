"""The engines of bench `shuffle`, each in a module of its own."""
