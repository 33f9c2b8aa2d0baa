"""Runs a user's own scripts as jobs on a stack's Ray cluster, while nothing is measured there."""
