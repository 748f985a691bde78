"""A coordinator at work: the core carried out with a lock, a thread, a store and links."""
