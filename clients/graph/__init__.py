"""The fluent job graph: operators and connections that become the same plan as a DataFrame."""
