"""What `rwi try` is asked for: each variable read, and each bad value refused with what is allowed."""

import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from cli.setup import project
from cli.setup.project import ROOT, ToolError
from cli.stack import config as stack_config
from cli.tryout import tryout, write
from cli.tryout.typed import Typed
from tests.golden import Wording
from tests.typed import tried
from training.workloads.script import python_environment, recipe
from training.workloads.script.commands import ArmCommand
from training.workloads.script.environment import observed_by, variables_of
from training.workloads.script.recognise import Script


@pytest.fixture
def stack_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the stack `mine`, which is not there yet."""
    monkeypatch.setattr(project, "STACKS", tmp_path)
    return tmp_path / "Pulumi.mine.yaml"


def test_the_variables_are_read() -> None:
    """Each, and the defaults of what was not typed; paths from the project's folder."""
    asked = tried("examples/a.py", "--python", "x/python", "--env", "A=1", "--env", "B=2 3", "--", "--a", "b c")

    assert ROOT / "examples/a.py" == asked.script
    assert ("--a", "b c") == asked.arguments
    assert f"{ROOT}/x/python" == asked.python
    assert {"A": "1", "B": "2 3"} == asked.variables
    assert (2, 20, 120, "auto") == (asked.workers, asked.steps, asked.limit_seconds, asked.kind)


@pytest.mark.parametrize(("keys", "workers"), [({"workers": "3"}, 3), ({}, None)])
def test_a_stack_s_script_is_tried_with_its_workers(keys: dict[str, str], workers: int | None) -> None:
    """Where the stack names none, with the default's."""
    assert workers == Typed.of_keys({"script": "examples/a.py"} | keys).workers


def test_a_script_is_tried_in_the_environment_that_surrounds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.venv` in its folder, or else the one that is active; what is named counts, and this project's scripts have its
    own. Lines to type, and keys, name it."""
    for folder in ("mine", "active", "named"):
        (tmp_path / folder / ".venv" / "bin").mkdir(parents=True)
        (tmp_path / folder / ".venv" / "bin" / "python").touch()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active" / ".venv"))
    beside, active = tried(f"{tmp_path}/mine/a.py"), tried(f"{tmp_path}/a.py")
    named = tried(f"{tmp_path}/mine/a.py", "--python", f"{tmp_path}/named/.venv")
    monkeypatch.setenv("VIRTUAL_ENV", str(project.VENV))
    pythons = {"mine": beside, "active": active, "named": named}

    assert {name: f"{tmp_path}/{name}/.venv/bin/python" for name in pythons} == {
        name: request.python for name, request in pythons.items()
    }
    assert f"{tmp_path}/mine/.venv/bin/python" == beside.keys["python"]
    assert f" --python {tmp_path}/mine/.venv" in beside.line()
    assert f"{project.VENV}/bin/python" == tried(f"{tmp_path}/a.py").python
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "active" / ".venv"))
    assert f"{project.VENV}/bin/python" == tried("examples/a.py").python


def test_more_workers_than_cpus_are_refused() -> None:
    """Before anything runs."""
    with pytest.raises(ToolError, match="--workers 1000: "):
        tried("a.py", "--workers", "1000")


def test_what_was_tried_is_written_as_keys(stack_file: Path) -> None:
    """Into the stack's file: new ones, and in the place of old ones; what else stands there stays."""
    stack_file.write_text("# mine\nconfig:\n  ray-worth-it:target: local\n  ray-worth-it:script: old.py # once\n")
    asked = tried("a.py", "--write", "--stack", "mine", "--steps", "9", "--", "--n", "{workers}", "b c")

    write.write(asked.write_to, asked.keys)
    again = stack_file.read_text()
    write.write(asked.write_to, asked.keys)

    wanted = {"target": "local", "workload": "script", "script": "a.py", "scriptArguments": "--n {workers} 'b c'"}
    assert {f"ray-worth-it:{key}" if key == "target" else key: value for key, value in wanted.items()} == (
        stack_config.config_of("mine")
    )
    assert stack_file.read_text() == again
    assert again.startswith("# mine\nconfig:\n")
    assert "" == tried("a.py").write_to


@pytest.mark.parametrize(
    ("given", "written", "secrets"),
    [
        ("HF_TOKEN=abc DATA=/data", "DATA=/data", ["HF_TOKEN"]),
        ("WANDB_API_KEY='a b'", "", ["WANDB_API_KEY"]),
        ("dbPassword=x", "", ["dbPassword"]),
        ("OPENAI_KEY=x MYKEY=y PASS=z", "", ["OPENAI_KEY", "MYKEY", "PASS"]),
        ("API_KEY_2=x MY_PAT=y AUTHORIZATION=z DB_PW=a", "", ["API_KEY_2", "MY_PAT", "AUTHORIZATION", "DB_PW"]),
        ("MAX_TOKENS=9 REPEAT=2 COMPAT=1", "MAX_TOKENS=9 REPEAT=2 COMPAT=1", []),
        ("KEYBOARD=x PASSES=2", "KEYBOARD=x PASSES=2", []),
        ("X=hf_abcdefghijklmnopqrstuvwx", "", ["X"]),
        ("AT=https://me:pw@example.com", "", ["AT"]),
        ("TOKENIZERS_PARALLELISM=true 'A=b c' HF_TOKEN=", "TOKENIZERS_PARALLELISM=true 'A=b c' HF_TOKEN=", []),
    ],
)
def test_no_secret_is_written_into_a_file_that_git_tracks(
    stack_file: Path, given: str, written: str, secrets: list[str]
) -> None:
    """What stays out is named, with the line that asks for it; all of it is tried."""
    stack_file.write_text("config: {}\n")
    env = [word for name, value in recipe.variables(given).items() for word in ("--env", f"{name}={value}")]
    asked = tried("a.py", *env, "--write", "--stack", "mine")

    with redirect_stdout(StringIO()) as printed:
        tryout._write_stack_file(asked)
    said = printed.getvalue()

    assert written == stack_config.config_of("mine").get("environment", "")
    line = "pulumi config set --secret secretEnvironment --stack mine"
    assert (line in said) == bool(secrets)
    assert all(name in said for name in secrets)
    assert recipe.variables(given) == asked.variables


@pytest.mark.parametrize(
    "words",
    [
        "--api-key sk-abc", "--wandb-key=sk-abc", "--db-pass 'sk-abc d'", "--token sk-abc", "wandb.key=sk-abc",
        "--auth sk-abc", "+logger.pat=sk-abc",
    ],
)  # fmt: skip
def test_a_secret_in_arguments_is_refused_where_it_would_be_written(words: str) -> None:
    """And not where it is only tried."""
    script = ["--", *shlex.split(words)]

    assert tried("a.py", *script).arguments
    with pytest.raises(ToolError, match=r"(?s)git tracks.*--env") as refused:
        tried("a.py", "--write", *script)
    assert "sk-abc" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "config: {}\n", "# nothing\n"])
def test_an_empty_stack_file_gets_a_config(stack_file: Path, text: str) -> None:
    """As Pulumi takes it for one."""
    stack_file.write_text(text)

    write.write("mine", {"script": "a.py"})

    assert {"script": "a.py"} == stack_config.config_of("mine")


def test_a_stack_file_in_another_form_is_left_alone(stack_file: Path) -> None:
    """And the lines to put there are said."""
    stack_file.write_text("config: {ray-worth-it:workers: '2'}\n")

    for key in ("workers", "script"):
        with pytest.raises(ToolError, match=f'  {key}: "3"'):
            write.write("mine", {key: "3"})

    assert "config: {ray-worth-it:workers: '2'}\n" == stack_file.read_text()


def test_a_stack_file_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder of stacks takes no file."""
    monkeypatch.setattr(project, "STACKS", tmp_path / "absent")

    with pytest.raises(ToolError, match=r"Pulumi\.mine\.yaml"):
        write.write("mine", {"script": "a.py"})


def test_an_environment_without_ray_is_one_line(
    wording: Wording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that imports Ray; and versions that can't be observed, by name. What uv made has no pip."""
    monkeypatch.setattr(python_environment, "modules", lambda python: frozenset({"pip"} if "pip" in python else ()))
    monkeypatch.setattr(python_environment, "is_environment", lambda _: True)
    script = Script(path=tmp_path / "a.py", kind="ray-torch", modules=frozenset({"ray.train", "torch"}), arguments=())

    by_pip = r"a\.py .*ray.*: /pip/python -m pip install 'ray\[train\]>="
    with pytest.raises(python_environment.PythonError, match=by_pip):
        python_environment.check(script, {"python": "3.11.0"}, "/pip/python")
    by_uv = r"a\.py .*ray.*: \S*uv\S* pip install --python /x/python 'ray"
    with pytest.raises(python_environment.PythonError, match=by_uv):
        python_environment.check(script, {"python": "3.11.0"}, "/x/python")
    with pytest.raises(python_environment.PythonError, match=r"ray 2\.49\.2 .*2\.51 ") as old_ray:
        python_environment.check(script, {"python": "3.11.0", "ray": "2.49.2"}, "/x/python")
    with pytest.raises(python_environment.PythonError, match=r"torch 2\.0\.1\+cpu .*2\.1 ") as old_torch:
        python_environment.check(script, {"python": "3.11.0", "ray": "2.60.0", "torch": "2.0.1+cpu"}, "/x/python")
    for refused in (old_ray, old_torch):
        wording("script", str(refused.value).replace(python_environment.uv(), "uv"))
    python_environment.check(script, {"python": "3.9.1", "ray": "2.51.0", "torch": "2.1.0"}, "/x/python")


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/ls", "/bin/true"])
def test_what_is_no_python_is_refused(python: str) -> None:
    """With what it said."""
    with pytest.raises(python_environment.PythonError, match=python):
        python_environment.versions(python)


def test_a_run_has_the_environment_of_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What every run may have, and what --env names: no secret of the caller, no cluster of others, no proxy."""
    for name in ("AWS_SECRET_ACCESS_KEY", "RAY_ADDRESS", "TF_CONFIG", "PYTHONPATH", "HTTPS_PROXY", "TRAINING_POD"):
        monkeypatch.setenv(name, "of the caller")
    asked = tried("a.py", "--env", "DATA=/d", "--env", "OMP_NUM_THREADS=7", "--env", "RAY_AUTH_MODE=disabled")
    arm = ArmCommand(arm="baseline", command=("python",), variables={"OMP_NUM_THREADS": "1"})
    given = variables_of(arm, asked.variables, tmp_path / "ray") | observed_by(tmp_path, asked.steps)

    assert "of the caller" not in given.values()
    assert "/d" == given["DATA"]
    assert "1" == given["OMP_NUM_THREADS"]
    assert ("token", str(tmp_path / "ray")) == (given["RAY_AUTH_MODE"], given["RAY_TMPDIR"])
