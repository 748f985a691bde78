"""Where a plan runs: in this process, or on a fabric of agents."""
