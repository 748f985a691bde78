"""What agents, coordinator and clients say to each other, and the ways it travels."""
