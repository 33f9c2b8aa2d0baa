"""Every command in the documents is one that this project knows; and what the check itself would let through."""

import re

import pytest

from tests.docs import known, markdown, on_a_cluster
from tests.docs.markdown import Command

DOCUMENTS = markdown.documents()
PROGRAMS = re.compile(r"(?:[A-Z_]+=\S+ )*(?:\./rwi|pulumi|kubectl|minikube|(?:\.venv/bin/)?python3? -m) \S")
"""How inline code begins that is a command."""
IT_NEEDS_ONE = "no-run it needs a cluster"
EXAMPLES = {"pulumi config set dataset stripes"}
"""Of what CONTRIBUTING shows how to add."""


def wrong(found: list[Command]) -> list[str]:
    """What is wrong, with its place."""
    return [f"{its.place}: `{its.text}`: {problem}" for its in found for problem in known.problems(its.text)]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_of_a_block_is_known(document: str) -> None:
    """Targets, settings and their values, modules and their flags, paths; what is shown to fail aside."""
    found = markdown.commands(document, markdown.read(document))

    assert [] == wrong([its for its in found if its.info != "fails"])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_in_the_text_is_known(document: str) -> None:
    """Likewise in backticks; one with … or <…> in it is a pattern."""
    found = markdown.inline_code(document, markdown.read(document))

    commands = [its for its in found if PROGRAMS.match(its.text) and its.text not in EXAMPLES]

    assert [] == wrong([its for its in commands if not re.search("[…<]", its.text)])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_in_the_text_is_there(document: str) -> None:
    """A file of the project that is named in backticks exists."""
    found = markdown.inline_code(document, markdown.read(document))

    assert [] == [f"{its.place}: {problem}" for its in found for problem in known.missing_paths([its.text])]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_block_that_is_not_run_says_why(document: str) -> None:
    """The only words after a fence's language are `fails`, or `no-run` and a reason."""
    infos = {its.info for its in markdown.commands(document, markdown.read(document))}

    assert all(re.fullmatch(r"|fails|no-run \S.*", info) for info in infos), infos


def test_the_cluster_story_runs_what_needs_a_cluster() -> None:
    """All of a block that says so; what it leaves out is there, and has its reason."""
    in_blocks = [its for name in DOCUMENTS for its in markdown.commands(name, markdown.read(name))]
    texts = [its.text for its in on_a_cluster.commands()]

    of_one = [its for its in in_blocks if its.info == IT_NEEDS_ONE]
    assert [] == [str(its.place) for its in of_one if not on_a_cluster.NEEDS_ONE.match(its.text)]
    assert [] == [kind for kind in on_a_cluster.ELSEWHERE if not any(re.match(kind, text) for text in texts)]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("./rwi upp", "No such command 'upp'"),
        ("make up", "make is no program"),
        ("./rwi destroy upp", "unexpected extra argument (upp)"),
        ("./rwi preview --set worker=3", "worker is no setting"),
        ("./rwi preview --set workers=0", "workers = 0: allowed is a whole number from 1 to 256"),
        ("./rwi up --stackk local", "No such option '--stackk'"),
        ("./rwi up --stack minikub", "there is no stacks/Pulumi.minikub.yaml"),
        ('./rwi sweep WORKER="1 2"', "WORKER is no setting"),
        ('./rwi sweep globalBatchSize="64 many"', "globalBatchSize = many"),
        ("./rwi set epoch=5", "epoch is no setting"),
        ("./rwi set epoch=", "epoch is no setting"),
        ("./rwi set workers=3 epochs=0 --stack minikube", "epochs = 0: allowed is"),
        ("pulumi config set epoch 3", "epoch is no setting"),
        ("pulumi config set epochs 0", "epochs = 0"),
        ("pulumi config rm epoch", "epoch is no setting"),
        ("pulumi previw", "pulumi previw is no command"),
        ("pulumi stack outputs", "pulumi stack has no command 'outputs'"),
        ('eval "$(./rwi project envv)"', "No such command 'envv'"),
        ("./rwi report history train.py --quick", "No such option '--quick'"),
        ("./rwi up && ./rwi statuss", "No such command 'statuss'"),
        ("./rwi outputs --json | jsonq .speedup", "jsonq is no program"),
        ("python -m training.bassline --result /tmp/x.json", "there is no module training.bassline to run"),
        (".venv/bin/python -m training.ray --epoks 3 --result /tmp/x.json", "unrecognized arguments: --epoks"),
        ("python -m training.ray --epochs 0 --result /tmp/x.json", "--epochs: '0' is not allowed"),
        ("diff training/native.py training/rays.py", "training/rays.py is not in the project"),
        ("cp stacks/Pulumi.lokal.yaml stacks/Pulumi.ci.yaml", "stacks/Pulumi.lokal.yaml is not in the project"),
        ("kubectl gett pods", "kubectl gett is no command"),
        ('./rwi preview --set "workers=3', "it is no shell command"),
    ],
)
def test_a_broken_command_is_found(command: str, problem: str) -> None:
    """Each kind of mistake once."""
    assert any(problem in found for found in known.problems(command)), known.problems(command)


@pytest.mark.parametrize(
    "command",
    [
        'eval "$(./rwi project env)"',
        './rwi sweep workers="1 2 3" --set epochs=2 --set repeats=1 --set allowOversubscription=true',
        './rwi sweep learningRate="0.001 0.01" --keep',
        "./rwi set workers=3 learningRate= --stack minikube",
        "./rwi report history 1 latest --stack sweep-local",
        "./rwi outputs --json | .venv/bin/python -m json.tool | grep speedup > runs/x.txt",
        "python -m training.native --seed 2 --model cnn --epochs 4 --result /tmp/x/result.json",
        "pulumi refresh --yes --non-interactive --clear-pending-creates",
        "ls runs/local results/local/latest/ stacks/*.yaml",
    ],
)
def test_a_command_that_works_is_let_through(command: str) -> None:
    """The check does not cry wolf."""
    assert [] == known.problems(command)
