"""Schema registries: a client, subjects, and the schema that rows are written with."""
