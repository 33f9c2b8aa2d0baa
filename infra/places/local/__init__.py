"""This machine, with Ray embedded in a run's own processes."""
