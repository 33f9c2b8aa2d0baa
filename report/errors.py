"""What can go wrong with a report, apart from the comparison itself. Imports nothing, so that a table costs nothing."""


class PublishError(Exception):
    """Why a comparison could not be published, and where it still is."""


class HistoryError(Exception):
    """Why past results could not be shown, and which there are."""


class ShowError(Exception):
    """Why something could not be shown, and what to type instead."""
