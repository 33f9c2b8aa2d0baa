"""Whose a measurement is on a Ray cluster that others measure on, too."""

from pathlib import Path

import pytest

from infra.places.ray import owner

FILE = owner.FILE


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "FILE", FILE)


def test_each_checkout_is_an_owner_of_its_own(tmp_path: Path) -> None:
    """For a stack's name tells nothing; in one checkout each stack is one, and stays it."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()

    found = [owner.of("ray", here), owner.of("ray", here), owner.of("staging", here), owner.of("ray", there)]

    assert found[0] == found[1]
    assert 3 == len(set(found))
    assert ["owner"] == [file.name for file in (here / ".state").iterdir()]


def test_a_checkout_that_measured_nowhere_owns_nothing(tmp_path: Path) -> None:
    """And a preview, which asks, makes nothing."""
    assert "" == owner.known_mark("ray", tmp_path)
    assert [] == list(tmp_path.iterdir())
