"""The methods of a DataFrame, a family a file."""
