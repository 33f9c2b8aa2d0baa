"""Reads results and shows them: tables, published folders, pages. It starts, installs and measures nothing."""
