"""The target `ray`: its settings, and what is refused before an update makes anything on a cluster of others."""

import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pulumi
import pytest
import yaml

from infra import bundle, plan
from infra.places.ray import owner
from infra.places.ray.inspection import RayNodes
from infra.places.ray.place import ExistingRay, readable
from infra.places.ray.run import RayJobRunProvider
from infra.plan import RunPlan
from infra.settings.settings import Settings
from infra.settings.table import every_key
from tests import unreachable
from tests.golden import Wording
from tests.unit.fake_ray import MODULES, PYTHON, TOKEN, FakeRay, serving
from tests.unit.settings_machine import machine, only_problem, parse, problems
from training.contract.provenance import PROJECT
from training.launch.ray import jobs_api
from training.launch.ray.jobs_api import is_here
from training.launch.ray.other_jobs import mark

SCRIPT = {"workload": "script", "script": "examples/torch_ddp.py", "scriptArguments": "--epochs {epochs}"}
FACTS = machine(stack="theirs", secret=frozenset({"rayToken"}))


def settings_of(address: str, token: str = TOKEN, **values: str) -> Settings:
    """A stack of target ray."""
    return parse({"target": "ray", "rayAddress": address, "rayToken": token, **values}, FACTS)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the program logs in an update."""
    lines: list[str] = []
    for level in ("info", "warn"):
        monkeypatch.setattr(pulumi.log, level, lambda text, level=level: lines.append(f"{level}: {text}"))
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    monkeypatch.setattr(jobs_api, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(jobs_api, "PATIENCE_SECONDS", 0.1)
    return lines


@pytest.fixture
def preview(said: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Likewise, in a preview."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    return said


@pytest.fixture
def ray() -> FakeRay:
    """A cluster with room for everything."""
    return FakeRay(cpus=(0.0, 4.0, 2.0))


@pytest.fixture
def address(ray: FakeRay) -> Iterator[str]:
    """Of its dashboard."""
    with serving(ray) as served:
        yield served


def python(**versions: str) -> dict[str, Any]:
    """What an environment has, with other versions."""
    return {**PYTHON, "versions": {"python": "3.11.9", "ray": "2.60.0", "torch": "2.15.0", **versions}}


def refused(settings: Settings) -> str:
    """What an update says that it can't be made."""
    with pytest.raises(pulumi.RunError) as error:
        ExistingRay().survey(settings)
    return str(error.value)


def changed(ray: FakeRay) -> list[str]:
    """What was asked for that changes something."""
    return [path for method, path, _ in ray.requests if method != "GET"]


ALLOWED = every_key()["rayAddress"].rule.allowed
HEAD = "http://head:8265"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        # Ray Client's, one without its scheme, one with a password in it
        *(
            ({"rayAddress": given, **SCRIPT}, ("rayAddress", ALLOWED))
            for given in ("ray://head:10001", "head:8265", "https://me:secret@head:8265", f"{HEAD}/?token=x", "auto")
        ),
        (SCRIPT, ("rayAddress not set", "pulumi config set rayAddress http://ray-head.example.com:8265")),
        ({"rayAddress": HEAD, "dataset": "cifar10"}, ("dataset", "digits or synthetic on target ray")),
        ({"rayAddress": HEAD, "workerCpus": "1.5"}, ("workerCpus", "a whole number, or less than 1, on target ray")),
        ({"rayAddress": HEAD, **SCRIPT, "python": "../mine/.venv/bin/python"}, ("python", "Ray's nodes with theirs")),
        # A job there is not let into a bucket, and finds no folder of this machine
        ({"rayAddress": HEAD, "storage": "s3://my-bucket/training"}, ("storage", "pulumi config rm storage")),
        ({"rayAddress": HEAD, "storage": "../kept"}, ("storage", "pulumi config rm storage")),
    ],
)
def test_what_means_nothing_there_is_refused(values: dict[str, str], says: tuple[str, str]) -> None:
    """By its key in the first line, and with a line that works."""
    found = only_problem(FACTS, target="ray", **values)

    assert says[0] in found.splitlines()[0]
    assert says[1] in found


def test_a_token_in_clear_is_refused(wording: Wording) -> None:
    """The stack's file is in git."""
    (problem,) = problems(target="ray", rayAddress="http://head:8265", rayToken=TOKEN)

    assert ("pulumi config set --secret rayToken",) == problem.fixes
    assert f"rayToken = {TOKEN}" not in str(problem)
    wording("ray-cluster", str(problem))


@pytest.mark.parametrize(
    ("at", "token", "secret", "is_said"),
    [
        ("http://head:8265", TOKEN, "", True),
        ("http://head:8265", "", "A=b34567", True),
        ("http://head:8265", "", "", False),
        ("https://head:8265", TOKEN, "A=b34567", False),
        ("http://localhost:8265", TOKEN, "A=b34567", False),
        ("http://127.0.0.1:8265", TOKEN, "", False),
        ("http://127.0.0.1.example.com:8265", TOKEN, "", True),
        ("http://head:99999", TOKEN, "", True),
    ],
)
def test_secrets_that_can_be_read_on_the_way_are_said(at: str, token: str, secret: str, is_said: bool) -> None:
    """With the lines that lead there through a tunnel; Ray's dashboard has no TLS of its own, so it is not refused."""
    facts = machine(stack="theirs", secret=frozenset({"rayToken", "secretEnvironment"}))
    values = {"target": "ray", "rayAddress": at, "rayToken": token, **SCRIPT, "secretEnvironment": secret}

    warnings = [said for said in parse(values, facts).warnings if "ssh -N -L" in said]

    assert is_said == bool(warnings)
    if warnings:
        port = at.rpartition(":")[2]
        assert f"pulumi config set rayAddress http://localhost:{port}" in warnings[0]


@pytest.mark.parametrize(
    ("at", "tunnel", "line"),
    [
        ("http://head:8265", "8265:localhost:8265 head", "http://localhost:8265"),
        ("http://head", "8265:localhost:80 head", "http://localhost:8265"),
        ("http://[fd00::1]:8266", "8266:localhost:8266 fd00::1", "http://localhost:8266"),
        ("http://[fd00::1]", "8265:localhost:80 fd00::1", "http://localhost:8265"),
    ],
)
def test_a_tunnel_leads_to_the_port_of_the_address(at: str, tunnel: str, line: str) -> None:
    """From one here that everybody may listen at."""
    assert [f"ssh -N -L {tunnel}", f"pulumi config set rayAddress {line}"] == [
        said.strip() for said in readable(at).splitlines() if said.startswith("  ")
    ]


@pytest.mark.parametrize(
    ("location", "line"),
    [
        ("https://127.0.0.1:1/api/version", "pulumi config set rayAddress https://127.0.0.1:1"),
        ("https://evil.example.com/api/version", "pulumi config set rayAddress 'http://…:8265'"),
    ],
)
def test_an_address_that_sends_on_is_refused(said: list[str], location: str, line: str) -> None:
    """Of the same host with TLS the line is the one to type; the name of another host is nothing to set."""
    with serving(FakeRay(), sends_to=(301, location.removesuffix("/api/version"))) as address:
        text = refused(settings_of(address))

    assert "(HTTP 301)" in text
    assert line in text
    assert "evil" not in text


def test_the_token_is_in_no_text(address: str) -> None:
    """Of the settings, and of what a comparison keeps of them."""
    settings = settings_of(address)

    assert TOKEN == settings.of_ray.ray_token
    assert TOKEN not in repr(settings.of_ray)
    assert {"target", "rayAddress"} == set(settings.explicit)


def test_a_node_for_all_workers_brings_the_arms_that_need_one() -> None:
    """Native's ranks find each other on it, also those of boosters: it is no pod of its own for each. What a script
    imports is not asked of this machine: PyTorch is in no environment of the project."""
    settings = settings_of(HEAD, **SCRIPT)
    trees = {**SCRIPT, "script": "examples/trees.py", "scriptArguments": "--num-workers {workers}"}

    assert ("baseline", "ray") == settings.arms
    assert ["pulumi config set wideArm true" in settings.absent_arms[arm] for arm in ("wide", "native")] == [True, True]
    assert ("baseline", "wide", "native", "ray") == settings_of(HEAD, wideArm="true", **SCRIPT).arms
    assert "native" in settings_of(HEAD, wideArm="true", **trees).arms


def test_what_is_there_is_said_and_kept(ray: FakeRay, address: str, said: list[str], wording: Wording) -> None:
    """Ray's version and the nodes' CPUs; one job told what is installed, and its leftovers are the project's own."""
    site = ExistingRay().survey(settings_of(address))

    assert site.machines == {"address": address, "nodes": {"version": "2.60.0", "cpus": [2.0, 4.0]}}
    (line,) = said
    assert line.startswith("info: ")
    wording("ray-cluster", line.replace(address, "ADDRESS"))
    assert 1 == len([path for path in changed(ray) if path == "/api/jobs/"])
    assert [mark(owner.of("theirs"))] == list(ray.marks.values())


def test_another_cluster_is_another_measurement(ray: FakeRay, address: str, said: list[str]) -> None:
    """By its version and by its nodes' CPUs, in the order in which Ray tells of nodes by chance; by nothing else."""
    hashes = []
    first, later = "2.60.0", "2.61.0"
    for cpus, version in (((4.0, 2.0), first), ((2.0, 4.0), first), ((2.0, 8.0), first), ((2.0, 4.0), later)):
        ray.cpus, ray.version, ray.job = cpus, version, python(ray=version)
        plans = planned_at(address)
        hashes.append(plans[0].measurement)

    assert hashes[0] == hashes[1]
    assert 3 == len(set(hashes))
    assert said


def test_a_preview_changes_nothing(ray: FakeRay, address: str, preview: list[str], wording: Wording) -> None:
    """It plans what `up` makes, and says of what is in the way that it would be refused."""
    planned = planned_at(address)
    assert [] == changed(ray)
    ray.cpus = (1.0,)
    ExistingRay().survey(settings_of(address))

    nodes = RayNodes(version="2.60.0", cpus=(2.0, 4.0))
    assert planned == plan.plan_runs(settings_of(address), ExistingRay().site(settings_of(address), nodes))
    assert preview[-1].startswith("warn: ")
    assert "pulumi config set workers 1" in preview[-1]
    wording("ray-cluster", preview[-1])
    assert [] == changed(ray)


def planned_at(address: str) -> tuple[RunPlan, ...]:
    """The runs of the cluster as it is now."""
    return plan.plan_runs(settings_of(address), ExistingRay().survey(settings_of(address)))


def test_a_silent_cluster_is_a_warning_in_a_preview_and_refused_in_an_update(
    said: list[str], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """With the line that names another."""
    with unreachable.address("refused") as silent:
        text = refused(settings_of(silent))
        assert [] == said
        monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
        ExistingRay().survey(settings_of(silent))

    assert "pulumi config set rayAddress" in text
    wording("ray-cluster", text.replace(silent, "ADDRESS"), "an update")
    (line,) = said
    assert line.startswith("warn: ")
    wording("ray-cluster", line.replace(silent, "ADDRESS"), "a preview")


def test_the_address_of_the_stack_s_file_is_said_to_be_an_example(
    said: list[str], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """And not a cluster that might be started."""
    example = yaml.safe_load((PROJECT / "stacks/Pulumi.ray.yaml").read_text())["config"]["rayAddress"]
    monkeypatch.setattr(jobs_api.JobsApi, "version", Mock(side_effect=OSError("Name or service not known")))

    text = refused(settings_of(example))

    assert "pulumi config set rayAddress" in text
    wording("ray-cluster", text)
    assert [] == said


@pytest.mark.parametrize("token", ["", "wrong"], ids=["none", "wrong"])
def test_a_wrong_token_is_told_from_none(address: str, token: str, said: list[str], wording: Wording) -> None:
    """And is not in the message."""
    text = refused(settings_of(address, token))

    assert "(HTTP 401)" in text
    assert "pulumi config set --secret rayToken" in text
    assert "wrong" not in text
    wording("ray-cluster", text.replace(address, "ADDRESS"))
    assert [] == said


def test_an_address_of_something_else_is_refused(ray: FakeRay, address: str, said: list[str], wording: Wording) -> None:
    """Which answers."""
    text = refused(settings_of(f"{address}/nothing"))

    assert "(HTTP 404)" in text
    assert "pulumi config set rayAddress" in text
    wording("ray-cluster", text.replace(address, "ADDRESS"))
    assert [] == said == changed(ray)


OTHERS = {"theirs": ["RUNNING"]}
IN_THE_WAY: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "an old Ray": ({"version": "2.53.1"}, {}, r"2\.53\.1.*2\.54.*\n  pip install"),
    "no room": (
        {"cpus": (1.0, 2.0)},
        {"workers": "4", "globalBatchSize": "8"},
        r"4 workers.* 1, 2.*\n  pulumi config set workers 3",
    ),
    "no large node": ({"cpus": (1.0, 1.0)}, {"wideArm": "true"}, r"wide.* 2 CPUs.*\n  pulumi config set wideArm false"),
    "others": ({"states": OTHERS}, {}, r"theirs \(python theirs.py\).*\n  ./rwi jobs stop theirs --stack theirs"),
    "an old Python": ({"job": python(python="3.10.2")}, {}, r"3\.10\.2.* 3\.11.*-py311"),
    "another Ray": ({"job": python(ray="2.55.0")}, {}, r"2\.55\.0.*2\.60\.0.*PATH"),
    "no PyTorch": (
        {"nodes": {"10.0.0.7": {**PYTHON, "modules": [name for name in MODULES if name != "torch"]}}},
        SCRIPT,
        r"10\.0\.0\.7 .*\n  python -m pip install torch",
    ),
    "another PyTorch": (
        {"nodes": {"10.0.0.7": python(torch="2.1.0")}},
        SCRIPT,
        r"10\.0\.0\.7 .*torch 2\.1\.0.*2\.15\.0",
    ),
    "no job": ({"submitted": ["FAILED"]}, {}, r"FAILED: it broke"),
}
"""What is there, the settings, and what of the refusal is no wording: numbers, names and the lines to type."""


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_a_cluster_that_can_t_hold_the_measurement_is_refused(
    ray: FakeRay, address: str, said: list[str], what: str, wording: Wording
) -> None:
    """Before a run is submitted, with what lifts it; nobody's job is stopped."""
    there, values, facts = IN_THE_WAY[what]
    for name, value in there.items():
        setattr(ray, name, value)
    text = refused(settings_of(address, **values))

    assert re.search(f"(?s){facts}", text)
    text = text.partition("\n  |")[0].replace(address, "ADDRESS")  # without a job's log
    wording("ray-cluster", re.sub(r"-look-[0-9a-f]{6}", "-look-NUMBER", text))
    assert not [path for path in changed(ray) if path.endswith("/stop")]
    assert said is not None


def test_doctor_says_the_same(ray: FakeRay, address: str) -> None:
    """Without a job there."""
    assert [True] == [finding.ok for finding in ExistingRay().doctor(settings_of(address))]
    ray.states = dict(OTHERS)
    assert [True, False] == [finding.ok for finding in ExistingRay().doctor(settings_of(address))]
    assert [False] == [finding.ok for finding in ExistingRay().doctor(settings_of(address, "wrong"))]
    assert [] == changed(ray)


@pytest.mark.parametrize(
    ("address", "here"),
    [("http://127.0.0.1:8265", True), ("http://localhost:8265", True), ("http://[::1]:8265", True),
     ("https://ray.example.com/a", False), ("http://10.0.0.7:8265", False)],
)  # fmt: skip
def test_a_run_elsewhere_takes_no_lock_of_this_machine(address: str, here: bool, tmp_path: Any) -> None:
    """One on this machine waits for other measurements here, and they for it."""
    props = {"address": address, "stack": "theirs", "arm": "ray", "recipe": {}, "timeoutMinutes": 5}
    command = RayJobRunProvider().command(props, tmp_path)

    assert here == is_here(address) == ("--elsewhere" not in command)
    assert TOKEN not in " ".join(command)


def test_the_secrets_of_a_run_go_by_its_environment() -> None:
    """No command line has them, which every user of the machine can read."""
    provider = RayJobRunProvider()

    given = provider.variables({"token": TOKEN, "secretEnvironment": "{}"})
    assert {jobs_api.TOKEN: TOKEN, "TRAINING_SECRET_ENVIRONMENT": "{}"}.items() <= given.items()
    assert not {jobs_api.TOKEN, "TRAINING_SECRET_ENVIRONMENT"} & provider.variables({}).keys()
    assert bundle.LEAST_RAY == (2, 54)


def test_a_preview_shows_the_project_s_modules_where_a_job_has_them() -> None:
    """Beside the script, and not where an image has them."""
    (ray,) = (line for line in settings_of("http://head:8265", **SCRIPT).commands if line.startswith("ray:"))

    launcher = ".ray-worth-it/training/workloads/script/ranks/under_ray.py"
    assert f"{launcher} 2 1 " in ray
    assert ray.endswith(" torchrun torch_ddp.py") or " torchrun torch_ddp.py " in ray
