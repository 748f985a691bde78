"""Files as sources: one module a format, each with `file_schema`, `units` and `read_units`."""
