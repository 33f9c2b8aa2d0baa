"""`rwi why`: why a step takes as long as it does, and what removing each cause would gain."""
