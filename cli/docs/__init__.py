"""Writes the tables of the docs."""
