"""Starts an arm's processes, on this machine and in pods, and collects their result."""
