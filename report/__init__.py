"""Reads results and shows them: tables, published folders, pages. Neither `infra` nor `training` imports it."""
