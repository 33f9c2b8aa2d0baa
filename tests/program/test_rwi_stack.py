"""`rwi` over a real engine: settings for one call, outputs, plain pulumi on the same state, destroy, clean, smoke."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field

import pytest

from tests.program.rwi_project import Project, made, project

__all__ = ["project"]

Done = subprocess.CompletedProcess[str]
ENV = 'eval "$(./rwi project env)"'


def _succeeded(result: Done) -> Done:
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def _stack_file(project: Project) -> str:
    return (project.folder / "stacks/Pulumi.local.yaml").read_text(encoding="utf-8")


def _workers_in_state(project: Project) -> set[str]:
    resources = project.deployment()["resources"]
    assert isinstance(resources, list)
    return {item["outputs"]["workers"] for item in resources if "workers" in item.get("outputs", {})}


@dataclass
class Story:
    """What a user does with a stack, one command after another, and what each left."""

    project: Project
    done: dict[str, Done] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """The stack's file, after each."""
    workers: dict[str, set[str]] = field(default_factory=dict)
    """In the state, after each."""
    salts: dict[str, str] = field(default_factory=dict)
    """The copy of the settings, with Pulumi's salt, after each."""

    def rwi(self, step: str, *words: str) -> None:
        """A command."""
        self._note(step, self.project.rwi(*words))

    def shell(self, step: str, script: str) -> None:
        """What is pasted into a shell."""
        self._note(step, self.project.shell(script))

    def _note(self, step: str, done: Done) -> None:
        self.done[step], self.files[step] = done, _stack_file(self.project)
        if step == "outputs before":  # there is no stack yet
            return
        self.workers[step] = _workers_in_state(self.project)
        self.salts[step] = (self.project.folder / ".state/config/Pulumi.local.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """From nothing to nothing: every command is run once, and the tests say what it promises."""
    told = Story(made(tmp_path_factory.mktemp("story")))
    told.rwi("outputs before", "outputs", "--json")
    told.rwi("up", "up")
    told.rwi("again", "up")
    for what in ("publish", "closing", "table"):
        (told.project.folder / f"fails-{what}").touch()
        told.rwi(f"without {what}", "up")
        (told.project.folder / f"fails-{what}").unlink()
    told.rwi("preview", "preview")
    told.rwi("outputs", "outputs", "--json")
    told.rwi("failed", "up", "--set", "seconds=abc")
    told.rwi("with SET", "up", "--set", "workers=3")
    told.files["SET"] = (told.project.folder / ".state/shown/local/set.json").read_text()
    told.rwi("without SET", "up")
    told.shell("pulumi", f"{ENV}; pulumi config set workers 4; pulumi preview --diff")
    told.rwi("after pulumi", "up")
    (told.project.folder / "results").mkdir(exist_ok=True)
    told.rwi("refused", "project", "clean")
    told.done["destroy"] = told.project.rwi("destroy")
    (told.project.folder / "results/local/latest").mkdir(parents=True)
    told.done["outputs after"] = told.project.rwi("outputs")
    return told


def test_up_measures_reports_and_leaves_the_stack_file_as_committed(story: Story) -> None:
    """`rwi up` creates the stack, updates it, shows and publishes the comparison; a second changes nothing."""
    first, second = _succeeded(story.done["up"]), _succeeded(story.done["again"])

    assert 'report table {"workers": 2}' in first.stdout  # not prose: a command
    assert 'report publish --stack local {"workers": 2}' in first.stdout  # not prose: a command
    assert "3 unchanged" in second.stdout
    assert "config: {}\n" == story.files["again"]
    assert story.salts["up"] == story.salts["again"] != ""
    assert (story.project.folder / ".state/passphrase").stat().st_mode & 0o777 == 0o600


def test_the_answer_is_last_and_knows_where_it_was_published(story: Story) -> None:
    """Below the table; with the settings of this call, for a next step that keeps them."""
    first, with_set = story.done["up"], story.done["with SET"]

    last = first.stdout.splitlines()[-1]
    assert last.startswith("report closing --stack local --folder report publish")  # not prose: a command
    assert "--setting=workers=3" in with_set.stdout.splitlines()[-1]


@pytest.mark.parametrize("what", ["publish", "closing", "table"])
def test_up_fails_where_its_result_could_not_be_written_or_shown(story: Story, what: str) -> None:
    """What is on the screen alone is soon lost: the answer is shown all the same, and the status is not zero."""
    done = story.done[f"without {what}"]

    assert done.returncode != 0
    assert "3 unchanged" in done.stdout
    assert "report closing" in done.stdout


def test_set_holds_for_one_call(story: Story) -> None:
    """--set reaches this update alone: neither the stack file nor the next update knows it."""
    _succeeded(story.done["with SET"])
    _succeeded(story.done["without SET"])

    assert ({"3"}, {"2"}) == (story.workers["with SET"], story.workers["without SET"])
    assert "config: {}\n" == story.files["with SET"]


def test_plain_pulumi_works_on_the_same_state_after_project_env(story: Story) -> None:
    """As README prints it: eval the exports, set a value, preview; and the next `up` sees that value."""
    shown = _succeeded(story.done["pulumi"])
    _succeeded(story.done["after pulumi"])

    assert "2 to replace" in shown.stdout
    assert "throwaway:workers" in story.files["pulumi"]
    assert {"4"} == story.workers["after pulumi"]


def test_outputs_as_json_are_alone_on_stdout(story: Story) -> None:
    """A script can pipe `rwi outputs --json` into a parser; before a measurement it fails and says what to do."""
    before, after = story.done["outputs before"], _succeeded(story.done["outputs"])

    assert before.returncode != 0
    assert before.stdout == ""
    assert "`./rwi up`" in before.stderr
    assert json.loads(after.stdout) == {"workers": 2}


def test_an_update_leaves_its_settings_for_the_next_line(story: Story) -> None:
    """With which `rwi outputs` names it, where it did not come to its end."""
    assert {"workers": "3"} == json.loads(story.files["SET"])


def test_results_of_a_destroyed_stack_are_named(story: Story) -> None:
    """Nobody measures again what is there."""
    after = story.done["outputs after"]

    assert after.returncode != 0
    assert ["./rwi report open --result latest", "./rwi report history"] == re.findall(r"\./rwi .*", after.stderr)


def test_a_failed_update_ends_with_what_failed_what_is_kept_and_what_to_type(story: Story) -> None:
    """And shows no table: that of the measurement before would be taken for the answer. The status is not zero."""
    failed = story.done["failed"]
    ending = failed.stderr[failed.stderr.index("The update failed") :]

    assert failed.returncode != 0
    assert "first" in ending
    assert "abc" in ending
    assert "1 of 2" in ending
    assert "`./rwi up --set seconds=abc`" in ending
    assert "`./rwi outputs`" in ending
    assert "report" not in failed.stdout
    assert "previously" not in ending


def test_up_and_preview_say_in_words_what_they_are_about(story: Story) -> None:
    """Of a preview before the engine's first line; of an update as soon as its plan is there, which one of a second
    that prints through a pipe does not wait for."""
    first, again, with_set = (story.done[step] for step in ("up", "again", "with SET"))
    preview = story.done["preview"].stdout

    assert "a new measurement" in first.stdout
    assert "all 2 runs" in again.stdout
    assert "2 runs repeated" in with_set.stdout
    assert "results/local" in with_set.stdout
    assert "expected: unknown" not in preview  # nothing will be run
    assert preview.index("all 2 runs") < preview.index("Previewing update (local)")


def test_destroy_leaves_nothing_and_clean_waits_for_it(story: Story) -> None:
    """`rwi project clean` is refused while the stack holds resources; after `rwi destroy` only measurements stay."""
    project, refused = story.project, story.done["refused"]
    _succeeded(story.done["destroy"])
    resources = project.deployment().get("resources")
    _succeeded(project.rwi("project", "clean"))

    assert refused.returncode != 0
    assert "throwaway/local holds 2" in refused.stderr
    assert "`./rwi destroy`" in refused.stderr
    assert not resources
    assert not {".state", ".tools"} & {entry.name for entry in project.folder.iterdir()}
    assert (project.folder / "results").is_dir()

    _succeeded(project.rwi("project", "clean", "--all"))

    assert not (project.folder / "results").exists()


def test_smoke_is_gone_afterwards_and_leaves_the_local_stack_alone(project: Project) -> None:
    """The smallest comparison runs in a stack of its own, with local's settings and its own values."""
    assert "expected: unknown" in _succeeded(project.rwi("preview")).stdout
    shown = _succeeded(project.rwi("up", "--stack", "smoke"))
    stacks = _succeeded(project.shell(f"{ENV}; pulumi stack ls --json"))

    assert "report publish --stack smoke" in shown.stdout  # not prose: a command
    assert "report smoke" in shown.stdout
    assert "smoke is gone" in shown.stderr
    assert [(entry["name"], entry["current"]) for entry in json.loads(stacks.stdout)] == [("local", True)]


def test_a_backend_of_the_users_own_is_used(project: Project) -> None:
    """PULUMI_BACKEND_URL decides where the state is; the project's own backend is not even made."""
    elsewhere = project.folder.parent / "elsewhere"
    elsewhere.mkdir()
    project.environment |= {"PULUMI_BACKEND_URL": f"file://{elsewhere}", "PULUMI_CONFIG_PASSPHRASE": "of the user"}
    _succeeded(project.rwi("preview"))

    assert (elsewhere / ".pulumi/stacks/throwaway/local.json").is_file()
    assert not (project.folder / ".state/backend").exists()
    assert not (project.folder / ".state/passphrase").exists()


def test_a_stack_without_a_file_is_refused_with_those_there_are(project: Project) -> None:
    """Neither a typo nor a name with a slash creates anything."""
    unknown = project.rwi("up", "--stack", "locla")
    unsafe = project.rwi("up", "--stack", "../x; touch hacked")

    assert "stacks/Pulumi.locla.yaml; there are" in unknown.stderr
    assert "'../x; touch hacked'" in unsafe.stderr
    assert not (project.folder / ".state").exists()
    assert not (project.folder / "hacked").exists()
