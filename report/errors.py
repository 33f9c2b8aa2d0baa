"""The errors of reports, apart from the comparison's own. In a module of their own, so that tables import little."""

from pathlib import Path

from cli.setup.project import ToolError


class ReportError(ToolError):
    """The base class of this module's errors: something could not be shown or published, and the message says why."""


class PublishError(ReportError):
    """A comparison could not be published. The message says why, and where the comparison still is."""


class PageError(PublishError):
    """A published comparison has no HTML page; the message says why. `folder` holds the rest of the result."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(why)
        self.folder = folder


class HistoryError(ReportError):
    """Past results could not be shown. The message says why, and which results exist."""


class ShowError(ReportError):
    """Something could not be shown. The message says why, and what to type instead."""
