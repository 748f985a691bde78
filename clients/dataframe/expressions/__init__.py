"""Expressions: columns and what is made of them, before they are plan nodes."""
