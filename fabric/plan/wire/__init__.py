"""How what plans are made of travels: constants and types, sources and targets, windows."""
