"""Datasets of this fabric: files with their owners, splits, reading and writing."""
