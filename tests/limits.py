"""How long a test waits for a command before it ends it as one that hangs: no promise of the project."""

LONGEST_SECONDS = 900
"""A training that takes two minutes alone on a slow machine takes more beside three other tests."""

LEFT_SECONDS = 30
"""What a test has ended may take so long to be gone."""
