"""Checkpoints: barriers aligned, manifests, snapshot storage; pure but for the storage."""
