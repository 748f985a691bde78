"""The lazy DataFrame and its expressions: what Python developers write with."""
