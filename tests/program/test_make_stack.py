"""`make` over a real engine: settings for one call, outputs, plain pulumi on the same state, destroy, clean, smoke."""

from __future__ import annotations

import json
import subprocess

from tests.program.make_project import Project, project

__all__ = ["project"]


def _succeeded(result: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def _stack_file(project: Project) -> str:
    return (project.folder / "stacks/Pulumi.local.yaml").read_text(encoding="utf-8")


def _workers_in_state(project: Project) -> set[str]:
    resources = project.deployment()["resources"]
    assert isinstance(resources, list)
    return {item["outputs"]["workers"] for item in resources if "workers" in item.get("outputs", {})}


def test_up_measures_reports_and_leaves_the_stack_file_as_committed(project: Project) -> None:
    """`make up` creates the stack, updates it, shows and publishes the comparison; a second changes nothing."""
    first = _succeeded(project.make("up"))
    salt = (project.folder / ".state/config/Pulumi.local.yaml").read_text(encoding="utf-8")
    second = _succeeded(project.make("up"))

    assert 'report table {"workers": 2}' in first.stdout
    assert 'report publish --stack local {"workers": 2}' in first.stdout
    assert "3 unchanged" in second.stdout
    assert _stack_file(project) == "config: {}\n"
    assert (project.folder / ".state/config/Pulumi.local.yaml").read_text(encoding="utf-8") == salt
    assert (project.folder / ".state/passphrase").stat().st_mode & 0o777 == 0o600


def test_set_holds_for_one_call(project: Project) -> None:
    """SET reaches this update alone: neither the stack file nor the next update knows it."""
    _succeeded(project.make("up", SET="workers=3"))

    assert _workers_in_state(project) == {"3"}
    assert _stack_file(project) == "config: {}\n"

    _succeeded(project.make("up"))

    assert _workers_in_state(project) == {"2"}


def test_plain_pulumi_works_on_the_same_state_after_make_env(project: Project) -> None:
    """As README prints it: eval the exports, set a value, preview; and the next `make` sees that value."""
    _succeeded(project.make("up"))
    env = " ".join(["make", "-s", "BOOTSTRAP=true", "env"])
    shown = _succeeded(project.shell(f'eval "$({env})"; pulumi config set workers 3; pulumi preview --diff'))

    assert "2 to replace" in shown.stdout
    assert "throwaway:workers" in _stack_file(project)

    _succeeded(project.make("up"))

    assert _workers_in_state(project) == {"3"}


def test_outputs_as_json_are_alone_on_stdout(project: Project) -> None:
    """A script can pipe `JSON=1 make -s outputs` into a parser; before a measurement it fails and says what to do."""
    before = project.make("outputs", JSON="1")
    _succeeded(project.make("up"))
    after = _succeeded(project.make("outputs", JSON="1"))

    assert before.returncode != 0
    assert before.stdout == ""
    assert "has no measurement yet: `STACK=local make up`" in before.stderr
    assert json.loads(after.stdout) == {"workers": 2}


def test_a_failed_update_shows_the_last_complete_measurement_and_fails(project: Project) -> None:
    """The table is that of the outputs, said to be so, published nowhere, and make's status is not zero."""
    _succeeded(project.make("up"))
    failed = project.make("up", SET="seconds=abc")

    assert failed.returncode != 0
    assert "The update failed. The last complete measurement:" in failed.stderr
    assert 'report table {"workers": 2}' in failed.stdout
    assert "report publish" not in failed.stdout


def test_destroy_leaves_nothing_and_clean_waits_for_it(project: Project) -> None:
    """`make clean` is refused while the stack holds resources; after `make destroy` only measurements stay."""
    _succeeded(project.make("up"))
    (project.folder / "results").mkdir()
    refused = project.make("clean")
    _succeeded(project.make("destroy"))
    resources = project.deployment().get("resources")
    _succeeded(project.make("clean"))

    assert refused.returncode != 0
    assert "throwaway/local holds 2 resource(s): `STACK=local make destroy` first" in refused.stderr
    assert not resources
    assert not {".state", ".tools"} & {entry.name for entry in project.folder.iterdir()}
    assert (project.folder / "results").is_dir()

    _succeeded(project.make("clean", ALL="1"))

    assert not (project.folder / "results").exists()


def test_smoke_is_gone_afterwards_and_leaves_the_local_stack_alone(project: Project) -> None:
    """The smallest comparison runs in a stack of its own, with local's settings and its own values."""
    _succeeded(project.make("preview"))
    shown = _succeeded(project.make("smoke"))
    stacks = _succeeded(project.shell('eval "$(make -s BOOTSTRAP=true env)"; pulumi stack ls --json'))

    assert "report publish --stack smoke" in shown.stdout
    assert [(entry["name"], entry["current"]) for entry in json.loads(stacks.stdout)] == [("local", True)]


def test_a_backend_of_the_users_own_is_used(project: Project) -> None:
    """PULUMI_BACKEND_URL decides where the state is; the project's own backend is not even made."""
    elsewhere = project.folder.parent / "elsewhere"
    elsewhere.mkdir()
    project.environment |= {"PULUMI_BACKEND_URL": f"file://{elsewhere}", "PULUMI_CONFIG_PASSPHRASE": "of the user"}
    _succeeded(project.make("preview"))

    assert (elsewhere / ".pulumi/stacks/throwaway/local.json").is_file()
    assert not (project.folder / ".state/backend").exists()
    assert not (project.folder / ".state/passphrase").exists()


def test_a_stack_without_a_file_is_refused_with_those_there_are(project: Project) -> None:
    """Neither a typo nor a name with a slash creates anything."""
    unknown = project.make("up", STACK="locla")
    unsafe = project.make("up", STACK="../x; touch hacked")

    assert "there is no stacks/Pulumi.locla.yaml; there are local" in unknown.stderr
    assert "letters, digits, '_', '.' and '-' are allowed" in unsafe.stderr
    assert not (project.folder / ".state").exists()
    assert not (project.folder / "hacked").exists()
