"""What a job of a Ray cluster adds to an arm in a pod: its secret variables."""

import json
import os
from pathlib import Path

import pytest

from training.launch.environment import SECRET_FILE, SECRET_NAMES
from training.launch.ray import job_entry


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))


def test_secrets_are_read_from_their_file(tmp_path: Path) -> None:
    """The process that trains has them; its children are told of the file, which Ray's workers read."""
    file = tmp_path / job_entry.SECRET
    job_entry.tell_secret(file)
    assert SECRET_NAMES not in os.environ
    file.write_text(json.dumps({"HF_TOKEN": "xyzzy", "KEY": "two words"}))
    job_entry.tell_secret(file)

    assert ("xyzzy", "two words", "HF_TOKEN,KEY") == tuple(
        os.environ[name] for name in ("HF_TOKEN", "KEY", SECRET_NAMES)
    )
    assert str(file) == os.environ[SECRET_FILE]
