"""`pulumi up` of somebody's own script, for real: every arm trains, observed, and a second `up` changes nothing."""

import shutil

import pytest

from tests.program.conftest import NewProject
from tests.program.engine import ROOT, Project

PASSWORD = "no-log-has-this-word"  # noqa: S105 (that is what is tested)


@pytest.fixture
def project(new_project: NewProject) -> Project:
    """With an example beside it, which prints a password that it is given."""
    made = new_project(stub=False)
    script = made.folder.parent / "mine" / "train.py"
    script.parent.mkdir()
    shutil.copy(ROOT / "examples/keras_tf_config.py", script)
    text = script.read_text()
    script.write_text(text.replace('"""Train, and let Keras print."""', 'print(os.environ["PASSWORD"])'))
    made.create_stack(workload="script", script="../mine/train.py", scriptArguments="--epochs 1", repeats="1")
    made.pulumi("config", "set", "--secret", "secretEnvironment", f"PASSWORD={PASSWORD}")
    return made


@pytest.mark.slow
def test_a_script_is_measured_as_it_stands(project: Project) -> None:
    """The preview shows every command; the update runs them; another argument measures again, a second `up` nothing."""
    shown = project.pulumi("preview")
    inputs = [step["newState"]["inputs"] for step in project.preview_steps() if "training:Run" in step["urn"]]
    up = project.up()

    assert "train.py --epochs 1" in shown
    assert "under_ray.py 2 1 tf-config" in shown  # not prose: a command
    assert 3 == sum("train.py --epochs 1" in given["command"] for given in inputs)
    found = project.comparison()
    assert ["baseline", "native", "ray"] == sorted(found["arms"])
    assert "same script" == found["claim"], found["verdict"]
    assert {"baseline": 1, "native": 2, "ray": 2} == {name: arm["worldSize"] for name, arm in found["arms"].items()}
    assert {"stepsOfRanksEqual": True, "weightsEqual": True}.items() <= found["checks"].items()
    assert found["ratios"]["throughputRatio"] is not None
    assert found["ratios"]["speedup"] is None
    assert found["ratios"]["efficiency"] is None
    assert {} == project.preview()
    everything = up + str(project.state()) + project.comparison()["verdict"]
    everything += "".join(path.read_text(errors="replace") for path in (project.folder / "runs").rglob("*.*"))
    assert "[secret]" in everything
    assert PASSWORD not in everything

    (project.folder.parent / "mine" / "notes.txt").write_text("not imported")
    project.configure(priceCpuHour="0.05")
    assert {} == project.preview()
    project.configure(scriptArguments="--epochs 2")
    assert ["replace"] * 3 == list(project.preview().values())
