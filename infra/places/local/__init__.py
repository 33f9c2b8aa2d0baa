"""The target `local`: this machine, with Ray embedded in a run's own processes."""
