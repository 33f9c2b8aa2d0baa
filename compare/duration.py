"""Writes an estimated duration in words, for everything that says how long something takes. Pure."""


def duration(low: float, high: float | None = None) -> str:
    """Return seconds, or a range of them, in the unit that fits: `40 s`, `14 to 17 min`, `2.0 h`."""
    is_range, high = high is not None, low if high is None else high
    longest_in_seconds = 180 if is_range else 90  # both ends in whole minutes would be too coarse
    unit, name, digits = (1, "s", 0) if high < longest_in_seconds else (60, "min", 0) if high < 5400 else (3600, "h", 1)
    first, last = (f"{value / unit:.{digits}f}" for value in (low, high))
    return f"{first} {name}" if first == last else f"{first} to {last} {name}"
