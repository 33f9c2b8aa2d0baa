"""The errors of reports, apart from the comparison's own. In a module of their own, so that tables import little."""

from pathlib import Path

from cli.setup.project import ToolError


class ReportError(ToolError):
    """Something that could not be shown or published; says why. The root of what reports raise."""


class PublishError(ReportError):
    """A comparison could not be published; says why, and where it still is."""


class PageError(PublishError):
    """A published comparison has no HTML page; says why. `folder` holds everything else."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(why)
        self.folder = folder


class HistoryError(ReportError):
    """Past results could not be shown; says why, and which there are."""


class ShowError(ReportError):
    """Something could not be shown; says why, and what to type instead."""
