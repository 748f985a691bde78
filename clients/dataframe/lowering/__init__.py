"""What verbs become: each one as nodes that every place knows, one verb a file."""
