"""Writes the tables of the docs, and README's pictures."""
