"""The checkpoints of one stream: begun, completed, kept, restored."""
