"""Clients of a cluster that exists: its API server, and Ray's dashboard through it."""
