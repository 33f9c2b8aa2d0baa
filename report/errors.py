"""What can go wrong with a report, apart from the comparison itself. It costs a table no import."""

from pathlib import Path


class PublishError(Exception):
    """Why a comparison could not be published, and where it still is."""


class PageError(PublishError):
    """Why a published comparison has no HTML page; `folder` holds everything else."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(why)
        self.folder = folder


class HistoryError(Exception):
    """Why past results could not be shown, and which there are."""


class ShowError(Exception):
    """Why something could not be shown, and what to type instead."""
