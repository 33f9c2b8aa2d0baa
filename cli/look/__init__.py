"""Looks at this machine and at a stack's cluster. Only `update` changes anything there."""
