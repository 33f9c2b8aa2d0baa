"""The wheel: what builds it, and what it starts. Imports nothing of the project."""
