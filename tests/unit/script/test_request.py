"""What `make try` is asked for: each variable read, and each bad value refused with what is allowed."""

from pathlib import Path

import pytest

from tools.setup.project import ROOT, ToolError
from tools.tryout import request
from training.workloads.script import their_python
from training.workloads.script.commands import ArmCommand
from training.workloads.script.environment import observed_by, variables_of
from training.workloads.script.recognise import Script


def test_the_variables_are_read() -> None:
    """ARGS and ENV as a shell splits them; paths from the project's folder."""
    asked = request.read({"SCRIPT": "examples/a.py", "ARGS": "--a 'b c'", "PYTHON": "x/python", "ENV": "A=1 B='2 3'"})

    assert ROOT / "examples/a.py" == asked.script
    assert ("--a", "b c") == asked.arguments
    assert f"{ROOT}/x/python" == asked.python
    assert {"A": "1", "B": "2 3"} == asked.variables
    assert (2, 20, 120, "auto") == (asked.workers, asked.steps, asked.limit_seconds, asked.kind)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"SCRIPT": ""}, "SCRIPT is missing: the file that trains, as in\n  make try SCRIPT="),
        ({"WORKERS": "0"}, "WORKERS=0: allowed is a whole number from 1"),
        ({"WORKERS": "1000"}, "this machine has no more"),
        ({"WORKERS": "two"}, "WORKERS=two"),
        ({"STEPS": "3"}, "STEPS=3: allowed is a whole number from 8"),
        ({"LIMIT": "-1"}, "LIMIT=-1"),
        ({"ARGS": "'open"}, "ARGS='open: No closing quotation"),
        ({"ENV": "A"}, "ENV=A: has 'A': allowed is NAME=value"),
        ({"ENV": "PYTHONPATH=/x"}, "install what it points at"),
    ],
)
def test_a_bad_value_is_refused(given: dict[str, str], message: str) -> None:
    """Before anything runs."""
    with pytest.raises(ToolError) as refused:
        request.read({"SCRIPT": "a.py"} | given)

    assert message in str(refused.value)


def test_an_environment_without_ray_is_one_line(tmp_path: Path) -> None:
    """A script that imports Ray; and versions that can't be observed, by name."""
    script = Script(path=tmp_path / "a.py", kind="ray-torch", modules=frozenset({"ray.train", "torch"}), arguments=())

    with pytest.raises(
        their_python.PythonError, match=r'its environment has none: /x/python -m pip install "ray\[train\]'
    ):
        their_python.check(script, {"python": "3.11.0"}, "/x/python")
    with pytest.raises(their_python.PythonError, match=r"ray 2.49.2 .* 2.51 or newer"):
        their_python.check(script, {"python": "3.11.0", "ray": "2.49.2"}, "/x/python")
    with pytest.raises(their_python.PythonError, match=r"torch 2.0.1\+cpu .* 2.1 or newer"):
        their_python.check(script, {"python": "3.11.0", "ray": "2.60.0", "torch": "2.0.1+cpu"}, "/x/python")
    their_python.check(script, {"python": "3.9.1", "ray": "2.51.0", "torch": "2.1.0"}, "/x/python")


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/ls", "/bin/true"])
def test_what_is_no_python_is_refused(python: str) -> None:
    """With what it said."""
    with pytest.raises(their_python.PythonError, match=python):
        their_python.versions(python)


def test_a_run_has_the_environment_of_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What every run may have, and what ENV names: no secret of the caller, no cluster of others, no proxy."""
    for name in ("AWS_SECRET_ACCESS_KEY", "RAY_ADDRESS", "TF_CONFIG", "PYTHONPATH", "HTTPS_PROXY", "TRAINING_POD"):
        monkeypatch.setenv(name, "of the caller")
    asked = request.read({"SCRIPT": "a.py", "ENV": "DATA=/d OMP_NUM_THREADS=7 RAY_AUTH_MODE=disabled"})
    arm = ArmCommand(arm="baseline", variables={"OMP_NUM_THREADS": "1"})
    given = variables_of(arm, asked.variables, tmp_path / "ray") | observed_by(tmp_path, asked.steps)

    assert "of the caller" not in given.values()
    assert "/d" == given["DATA"]
    assert "1" == given["OMP_NUM_THREADS"]
    assert ("token", str(tmp_path / "ray")) == (given["RAY_AUTH_MODE"], given["RAY_TMPDIR"])
