"""The logical plan: frozen nodes and expressions, types, checks, printing, the wire form."""
