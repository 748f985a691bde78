"""Secrets, tokens and MACs: who may do what, and which bytes are ours."""
