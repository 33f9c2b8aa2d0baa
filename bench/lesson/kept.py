"""What is kept of a lesson: benchmarks/lesson-<time>.json."""

from dataclasses import dataclass

from bench.lesson.judge import Lesson
from bench.lesson.record import Repeat

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Kept:
    """All of it, so that it can be judged again."""

    schema_version: int
    made_at: str
    """UTC, ISO 8601."""
    cpu_model: str
    cpus: int
    """CPUs that every way had."""
    versions: dict[str, str]
    """Of Python and Ray."""
    environment: dict[str, str]
    """Variables that steer Ray or numpy."""
    seconds: float
    """The whole lesson took so long, once it had the machine."""
    repeats: list[Repeat]
    refused: list[str]
    """Why nothing is concluded; empty if there is no reason."""
    lesson: Lesson | None
    """None if nothing is concluded."""
