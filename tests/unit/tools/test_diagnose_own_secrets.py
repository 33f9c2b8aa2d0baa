"""This machine's own credentials are in no archive, whoever printed them."""

import pytest

from tools.look import diagnose_secrets
from tools.look.cluster import find
from tools.look.scrub import REPLACEMENT


def test_credentials_of_the_environment_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a proxy, of a cloud: plain words, which nothing but their variable tells from others."""
    monkeypatch.setenv("MY_CLOUD_SECRET", "correct-horse-battery")
    monkeypatch.setenv("MY_CLOUD_REGION", "staple-of-the-north")
    scrubber = diagnose_secrets.scrubber_of(find("ci", {}), None)

    text = scrubber.clean("correct-horse-battery in staple-of-the-north")

    assert f"{REPLACEMENT} in staple-of-the-north" == text
