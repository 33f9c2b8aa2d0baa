"""The errors of reports, apart from the comparison's own. In a module of their own, so that tables import little."""

from pathlib import Path


class PublishError(Exception):
    """A comparison could not be published; says why, and where it still is."""


class PageError(PublishError):
    """A published comparison has no HTML page; says why. `folder` holds everything else."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(why)
        self.folder = folder


class HistoryError(Exception):
    """Past results could not be shown; says why, and which there are."""


class ShowError(Exception):
    """Something could not be shown; says why, and what to type instead."""
