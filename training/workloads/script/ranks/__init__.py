"""Launchers that connect the ranks of a user's script; each module is a command in the user's own Python."""
