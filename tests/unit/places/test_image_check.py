"""An image that was made elsewhere is asked first, and what it lacks is said with what to change."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import short_job
from infra.places.cluster.api.short_job import ShortJobError
from infra.places.cluster.image_check import BadImageError, ImageCheckProvider, pod_of
from infra.places.cluster.manifests.pod_parts import Placement
from tests.unit.kube_api import write_kubeconfig
from training.image.check import ASKED

IMAGE = "registry.example.com/mine:1"
NOTHING: dict[str, Any] = {"least": {}, "exact": {}, "modules": {}, "programs": [], "folders": []}


def ask(**asked: Any) -> tuple[int, str]:
    """Exit code and text of the check, asked of this very Python."""
    command = pod_of(Placement(image=IMAGE), {})["spec"]["containers"][0]["command"]
    done = subprocess.run(
        [sys.executable, *command[1:]],
        env=os.environ | {ASKED: json.dumps(NOTHING | asked)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).strip()


def test_what_has_everything_says_its_versions() -> None:
    """Those that were asked for."""
    code, said = ask(least={"python": "3.9"}, exact={"pytest": pytest.__version__}, modules={"json": ""})
    assert (code, json.loads(said)) == (0, {"python": sys.version.split()[0], "pytest": pytest.__version__})


def test_what_it_lacks_is_a_line_each() -> None:
    """And ends with 1, so that the Job fails."""
    code, text = ask(
        least={"python": "4.0", "no-such": "2.54"},
        exact={"pytest": "0.1", "no-such": "1"},
        modules={"no_such": "no-such", "other_such": "", "training.workloads.no.workload": ""},
        programs=["no-such"],
        folders=["/proc/self"],
    )
    said = (
        "4.0 or newer is needed",
        "it has no package no-such: pip install 'no-such>=2.54'",
        f"it has pytest {pytest.__version__} instead of 0.1",
        "it has no-such not at all instead of 1",
        "its Python does not find no_such: pip install no-such",
        "was not built from this version of the project for this workload",
        "does not find the module training.workloads.no",
        "it has no program no-such on PATH",
        "can't write to /proc/self",
    )

    assert code == 1
    assert [part in line for part, line in zip(said, text.splitlines(), strict=True)] == [True] * len(said)


def test_of_python_the_minor_version_counts() -> None:
    """A patch release changes nothing that was built for it."""
    major, minor = sys.version_info[:2]
    assert ask(exact={"python": f"{major}.{minor}.99"})[0] == 0
    assert ask(exact={"python": f"{major}.{minor + 1}.0"})[0] == 1


@pytest.fixture
def props(tmp_path: Path) -> dict[str, Any]:
    """Of the resource."""
    path = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")
    return {
        "image": IMAGE,
        "pod": json.dumps(pod_of(Placement(image=IMAGE), {})),
        "namespace": "n",
        "kubeconfig": str(path),
    }


def test_an_image_that_will_do_is_remembered_with_its_versions(
    props: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And asked again only where it, or what it has to have, is another."""
    monkeypatch.setattr(short_job, "run", lambda *_: 'a line\n{"ray": "2.60.0"}\n')
    created = ImageCheckProvider().create(props)
    outs = created.outs or {}
    assert (created.id, outs["found"]) == (IMAGE, '{"ray": "2.60.0"}')
    assert ImageCheckProvider().diff("", outs, props | {"kubeconfig": "elsewhere"}).changes is False
    assert ImageCheckProvider().diff("", outs, props | {"pod": "another"}).replaces == ["pod"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ShortJobError("it ended with exit code 1", "a\nb"), r"(?s)cannot run the pods.*\n  - a\n  - b"),
        (
            ShortJobError("its image can't be pulled: not found", pulled=False),
            "(?s)not found.*config set image .*imagePull",
        ),
        (ShortJobError('its container can\'t be started: exec: "python"'), '(?s)exec: "python".*user 1000'),
    ],
)
def test_an_image_that_will_not_do_is_one_message(
    props: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: ShortJobError, said: str
) -> None:
    """What is wrong, and what to type."""

    def fails(*_: object) -> str:
        raise error

    monkeypatch.setattr(short_job, "run", fails)
    with pytest.raises(BadImageError, match=said):
        ImageCheckProvider().create(props)
