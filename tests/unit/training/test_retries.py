"""The one way to try a step again."""

import pytest

from training.machine.retries import retry


def test_a_step_is_tried_until_its_rule_ends() -> None:
    """The rule gets the attempt and the error; the last error is raised, and another at once."""
    attempts: list[tuple[int, str]] = []

    def pause(attempt: int, error: Exception) -> float | None:
        attempts.append((attempt, str(error)))
        return 0.0 if attempt < 3 else None

    def fail() -> None:
        raise OSError("down") if len(attempts) < 5 else ValueError("wrong")

    with pytest.raises(OSError, match="down"):
        retry(fail, (OSError,), pause)
    assert [(1, "down"), (2, "down"), (3, "down")] == attempts

    attempts += [(0, "")] * 2
    with pytest.raises(ValueError, match="wrong"):
        retry(fail, (OSError,), pause)
    assert 5 == len(attempts)


def test_what_succeeds_later_is_returned() -> None:
    """After two failures."""
    answers = [OSError("a"), OSError("b"), 7]

    def ask() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return int(str(answer))

    assert 7 == retry(ask, (OSError,), lambda *_: 0.0)
