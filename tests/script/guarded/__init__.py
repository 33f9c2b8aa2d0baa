"""Scripts in which each hook of the observer is made to fail."""
