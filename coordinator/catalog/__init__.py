"""The datasets of a fabric, the transactions on them, and views among them."""
