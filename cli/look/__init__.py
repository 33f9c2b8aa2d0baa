"""Looks at this machine and at a stack's cluster; changes nothing."""
