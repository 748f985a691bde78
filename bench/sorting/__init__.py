"""The engines of bench `sort`, each in a module of its own."""
