"""A search over the arguments of a user's own script."""
