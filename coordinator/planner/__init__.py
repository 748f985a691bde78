"""From a checked logical plan to stages of tasks, and to the agents that run them."""
