"""Follows runs as they go on."""
