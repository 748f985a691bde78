"""Stages planned anew from the measured sizes of what they read, just before they start."""
