"""Tasks of streams: they run until their sources end, and keep what they know in checkpoints."""
