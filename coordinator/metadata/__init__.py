"""What a coordinator remembers across restarts."""
