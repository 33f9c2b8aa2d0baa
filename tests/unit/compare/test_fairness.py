"""The fairness checks that compare what every rank measured: for each, a result that makes it fail."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compare import fairness
from compare.comparison import compare
from compare.measurement import Run, requests_of
from tests.golden import Wording
from tests.unit.results import make_context, make_recipe, make_run, make_runs, replaced
from training.contract.provenance import PROJECT
from training.contract.result import Software, Worker
from training.contract.workload import named
from training.launch.environment import share_of_cpus


def with_worker(runs: list[Run], name: str, rank: int, **changes: Any) -> list[Run]:
    """The runs, with some of what one rank of one of them reported changed."""

    def workers(run: Run) -> list[Worker]:
        return [replace(worker, **changes) if worker.rank == rank else worker for worker in run.result.workers]

    return [replaced(run, workers=workers(run)) if run.name == name else run for run in runs]


def software(runs: list[Run], **changes: Any) -> Software:
    """What a rank ran with, changed."""
    return replace(runs[0].result.workers[0].software, **changes)


def checks(runs: list[Run], **recipe: Any) -> tuple[dict[str, bool | None], dict[str, str]]:
    """The checks of a comparison, and the reason of each that did not pass."""
    arms = tuple(dict.fromkeys(run.arm for run in runs))
    compared = compare(runs, make_context(make_recipe(**recipe), arms=arms))
    reasons = {name.removeprefix("checks."): why for name, why in compared.reasons.items() if "checks." in name}
    return compared.checks, reasons


@pytest.mark.parametrize(
    ("check", "name", "rank", "changes", "said"),
    [
        ("cpusDisjoint", "ray-2", 1, {"affinity": [0]}, "2 ranks of ray-2 were bound to CPU 0 of this-machine"),
        ("cpusDisjoint", "native-1", 0, {"affinity": [0, 2]}, "rank 0 of native-1 was bound to 2 CPUs, not 1"),
        ("cpusDisjoint", "baseline-3", 0, {"affinity": [0, 1]}, "rank 0 of baseline-3 was bound to 2 CPUs, not 1"),
        ("threadsAsAsked", "ray-1", 1, {"compute_threads": 2}, "rank 1 of ray-1 had 2 compute threads, not 1"),
        ("threadsAsAsked", "baseline-2", 0, {"compute_threads": 4}, "rank 0 of baseline-2 had 4 compute threads"),
        ("threadsAsAsked", "wide-2", 0, {"compute_threads": 1}, "rank 0 of wide-2 had 1 compute threads, not 2"),
        ("cpusDisjoint", "wide-1", 0, {"affinity": [0]}, "rank 0 of wide-1 was bound to 1 CPUs, not 2"),
    ],
)
def test_a_rank_on_other_cpus_or_threads_than_its_own_fails(
    check: str, name: str, rank: int, changes: dict[str, Any], said: str
) -> None:
    """Rule 4, of every rank of every arm; nothing else fails with it."""
    passed, reasons = checks(with_worker(make_runs(arms=("baseline", "wide", "native", "ray")), name, rank, **changes))

    assert [check] == [key for key, value in passed.items() if value is not True]
    assert said in reasons[check]


@pytest.mark.parametrize(
    ("check", "changes", "said"),
    [
        ("versionsEqual", {"versions": {"python": "3.13.1"}}, "differ in versions python: 3.11.9 and 3.13.1"),
        ("versionsEqual", {"versions": {"ray": "9.9.9"}}, "rank 1 of ray-1 differ in versions ray: 2.60.0 and 9.9.9"),
        ("versionsEqual", {"versions": {"keras": "3.0"}}, "differ in versions keras: none and 3.0"),
        ("platformsEqual", {"platform": "Linux aarch64 glibc 2.36"}, "differ in platform: Linux x86_64 glibc 2.36 and"),
        ("environmentEqual", {"environment": {"TF_ENABLE_ONEDNN_OPTS": "0"}}, "TF_ENABLE_ONEDNN_OPTS: none and 0"),
        ("environmentEqual", {"environment": {"OMP_NUM_THREADS": "8"}}, "OMP_NUM_THREADS: one a CPU and 8"),
        ("hashesEqual", {"code_hash": "x"}, "rank 1 of ray-1 ran other code than rank 0"),
    ],
)
def test_a_rank_with_other_software_than_the_others_fails(check: str, changes: dict[str, Any], said: str) -> None:
    """Rules 5 and 8: what is installed, the system, the steering variables, the code; of rank 1 as of rank 0."""
    runs = make_runs()
    own = software(runs)
    merged = {key: getattr(own, key) | value if isinstance(value, dict) else value for key, value in changes.items()}

    passed, reasons = checks(with_worker(runs, "ray-1", 1, software=replace(own, **merged)))

    assert [check] == [key for key, value in passed.items() if value is not True]
    assert said in reasons[check]


def test_what_only_some_arms_can_have_is_no_difference() -> None:
    """Ray's own variables, for which no other has a use. One wide process has a thread for each CPU of all workers;
    with another number it is not comparable."""
    runs, wide = make_runs(), make_runs(arms=("baseline", "wide", "ray"))
    environment = software(runs).environment | {"RAY_worker_niceness": "0"}

    passed, _ = checks(with_worker(runs, "ray-1", 0, software=software(runs, environment=environment)))

    assert {True} == set(passed.values())
    assert checks(wide)[0]["environmentEqual"]
    assert not checks(with_worker(wide, "wide-1", 0, software=software(wide)))[0]["environmentEqual"]


def test_more_ranks_than_cpus_take_turns_evenly_or_the_check_fails(wording: Wording) -> None:
    """Five ranks on four CPUs share one, which is not disjoint and not wrong; three on one CPU are."""
    recipe = make_recipe(workers=5)
    passed, reasons = checks(make_runs(recipe), workers=5)

    assert passed["cpusDisjoint"] is None
    assert {"5", "4"} <= set(re.findall(r"\d+", reasons["cpusDisjoint"]))
    wording("comparison", reasons["cpusDisjoint"], "more than CPUs")

    passed, reasons = checks(with_worker(make_runs(recipe), "native-2", 3, affinity=[0]), workers=5)

    assert passed["cpusDisjoint"] is False
    assert "native-2" in reasons["cpusDisjoint"]
    wording("comparison", reasons["cpusDisjoint"], "unevenly")


def test_what_could_not_be_checked_is_null_with_its_reason(wording: Wording) -> None:
    """Pods are not bound; a system may not list threads; one worker has no other."""
    runs = with_worker(make_runs(), "ray-1", 0, bound=False, affinity=list(range(64)))
    passed, reasons = checks(with_worker(runs, "ray-1", 1, compute_threads=None))

    assert (None, None) == (passed["cpusDisjoint"], passed["threadsAsAsked"])
    wording("comparison", reasons["cpusDisjoint"], "cpusDisjoint")
    wording("comparison", reasons["threadsAsAsked"], "threadsAsAsked")

    passed, reasons = checks(make_runs(make_recipe(workers=1)), workers=1)

    assert passed["cpusDisjoint"] is None
    wording("comparison", reasons["cpusDisjoint"], "one worker")


@pytest.mark.parametrize(
    ("name", "affinities", "fails"),
    [
        ("", [], False),
        ("native-1", [[0], [1], [2]], False),
        ("native-1", [[0, 1, 2], [0, 1, 2], [2]], False),
        pytest.param("native-1", [[0], [0], [0, 1, 2]], True, id="no room for each rank"),
        pytest.param("native-1", [[0, 1], [0, 1], [0, 1]], True, id="too few"),
        pytest.param("ray-2", [[0, 1, 2, 3]] * 3, True, id="too many"),
        pytest.param("ray-2", [[1, 2, 3]] * 3, True, id="others"),
        pytest.param("baseline-2", [[3]], True, id="another"),
    ],
)
def test_an_arm_that_is_not_bound_by_rank_has_its_cpus_as_a_whole(
    wording: Wording, name: str, affinities: list[list[int]], *, fails: bool
) -> None:
    """As many as it should, with room for each rank, and in every run the same ones."""
    recipe = make_recipe(workers=3)
    runs = []
    for run in make_runs(recipe):
        own = affinities if run.name == name else [[0]] if run.arm == "baseline" else [[0, 1, 2]] * 3
        pairs = zip(run.result.workers, own, strict=True)
        runs.append(replaced(run, workers=[replace(worker, affinity=cpus, bound=False) for worker, cpus in pairs]))

    passed, why = fairness._cpus_as_asked(runs, requests_of(recipe))
    assert (not fails, fails) == (passed, bool(why))
    if fails:
        assert name in why
        wording("comparison", why)


def test_pods_and_more_ranks_than_cpus_are_not_wrong() -> None:
    """Where a limit holds ranks nothing is known of CPUs; six ranks on four CPUs share all of them; and CPU 0 of one
    node is not CPU 0 of another."""
    recipe = make_recipe(workers=6)
    shared = [
        replaced(run, workers=[replace(worker, affinity=[0, 1, 2, 3]) for worker in run.result.workers])
        for run in make_runs(recipe)
        if run.arm != "baseline"
    ]
    in_pods = with_worker(shared, "ray-1", 0, pod="worker-0")
    apart = with_worker(in_pods, "ray-1", 1, pod="worker-1")

    assert (True, "") == fairness._cpus_as_asked(shared, requests_of(recipe))
    assert fairness._cpus_as_asked(apart, requests_of(recipe))[0] is None
    assert checks(with_worker(make_runs(), "ray-1", 1, node="another", affinity=[0]))[0]["cpusDisjoint"] is True


def test_ranks_in_one_pod_share_the_cpus_of_one_worker(wording: Wording) -> None:
    """Ray packs ranks that ask for one CPU each into a pod of two, and leaves the other idle."""
    recipe = make_recipe(workers=2)
    packed = with_worker(with_worker(make_runs(recipe), "ray-1", 0, pod="worker-0"), "ray-1", 1, pod="worker-0")
    passed, why = fairness._cpus_as_asked(packed, requests_of(recipe))

    assert passed is False
    assert "resources_per_worker" in why
    wording("comparison", why)


@pytest.mark.parametrize("count", [1, 2])
def test_ranks_get_different_cpus(count: int) -> None:
    """As many as they compute with, until there are none left."""
    shares = [share_of_cpus([3, 1, 0, 2], rank, count) for rank in range(4 // count)]

    assert 4 == len({cpu for share in shares for cpu in share})
    assert {count} == {len(share) for share in shares}
    assert shares[0] == share_of_cpus([3, 1, 0, 2], 4 // count, count)


def test_no_check_is_true_by_itself() -> None:
    """Every check that a comparison lists has a result, here or in test_comparison.py, that makes it fail; what others
    did is at most not known (test_quiet.py)."""
    here = {"cpusDisjoint", "threadsAsAsked", "versionsEqual", "platformsEqual", "environmentEqual", "hashesEqual"}
    there = {"replicasAsAsked", "sameWork", "weightsEqual", "shardsCoverDataSet"}

    assert here | there | {"machineQuiet"} == set(checks([make_run(arm) for arm in ("baseline", "native", "ray")])[0])


HASHED = """
import sys
from training.launch import entry; from training.contract import provenance

def software(*_):
    loaded = ("tensorflow", "training.workloads.cnn.train", "training.workloads.cnn.loop")
    print([name for name in loaded if name in sys.modules])
    sys.exit(0)

provenance.software = software
entry.take_part(entry.parse("baseline", None, ["--result", sys.argv[1], "--no-bind-cpus"]), "baseline")
"""


def test_code_is_hashed_before_it_runs(tmp_path: Path) -> None:
    """A module that is edited while a run goes on is not recorded as what had run."""
    command = [sys.executable, "-c", HASHED, str(tmp_path / "result.json")]

    assert "[]\n" == subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("order", [(True, None, True), (None, True, False), (False, None, True)])
def test_the_work_is_as_in_the_worst_repeat(order: tuple[bool | None, ...]) -> None:
    """Not known in one is not known; and different in one is different, whatever the others are."""
    known = iter([{"rows": (passed, "" if passed else "why")} for passed in order])
    workload = replace(named("cnn"), same_work=lambda _: next(known))
    found = fairness.verify_points(workload, [{"ray": make_run("ray", repeat)} for repeat in (1, 2, 3)])

    expected = False if False in order else None
    assert expected is found.work["rows"].passed
    assert expected is found.checks["sameWork"].passed
