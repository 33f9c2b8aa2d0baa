"""Whether the machine was the runs' own: what is said of others, and when that cannot be known."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from compare.comparison import compare
from compare.measurement import Run
from compare.measures import measures_of
from compare.schema import Comparison
from report import table
from tests.golden import Wording
from tests.unit.results import make_context, make_runs, quiet_machine, replaced
from training.contract.cpu_use import CpuWait, MachineUse
from training.contract.result import TrainingResult


def compared(runs: Sequence[Run], **context: Any) -> Comparison:
    """Of three repeats."""
    return compare(runs, make_context(**context))


def beside(
    run: Run, *, others: float = 0.02, stolen: float = 0.0, waited: float = 0.03, had: float = 9.7, mean: float = 0.97
) -> Run:
    """The run with so many CPUs of others' and the host's, and ranks that waited so long in 10 s of training, and had
    one CPU each for so long."""
    use = quiet_machine(20.0, other_cpu_seconds=20 * others, stolen_seconds=20 * stolen)
    wait = CpuWait(seconds=10.0, cpu_seconds=had, waited_seconds=waited)
    workers = [replace(worker, training_wait=wait, mean_cpus=mean) for worker in run.result.workers]
    return replaced(run, machine=use, workers=workers)


def with_one(name: str, **changes: float) -> list[Run]:
    """A quiet measurement, but for one run."""
    return [beside(run, **changes) if run.name == name else run for run in make_runs()]


def test_a_quiet_machine_passes() -> None:
    """Ranks wait a little for each other and for the system, and nothing is said of it."""
    comparison = compared(make_runs())

    assert True is comparison.checks["machineQuiet"]
    assert not {"verdict.otherPrograms", "verdict.stolen", "verdict.unevenCpus"} & comparison.reasons.keys()


def test_a_load_beside_a_run_is_named(wording: Wording) -> None:
    """The run that it took most from, and how many; nothing is dropped or made incomparable."""
    runs = [beside(run, others=1.2, waited=4.0, had=6.0) if run.name == "native-1" else run for run in with_one(
        "ray-2", others=1.6, waited=9.0, had=4.0)]  # fmt: skip
    comparison = compared(runs)

    assert None is comparison.checks["machineQuiet"]
    assert "ray-2" in comparison.reasons["checks.machineQuiet"]
    wording("verdict", comparison.reasons["checks.machineQuiet"], "why")
    assert "ray-2" in comparison.reasons["verdict.otherPrograms"]
    assert {"1.6", "4", "2", "9"} <= set(re.findall(r"\d[\d.]*", comparison.reasons["verdict.otherPrograms"]))
    wording("verdict", comparison.reasons["verdict.otherPrograms"])
    assert "machineQuiet" not in comparison.reasons.get("verdict.checks", "")  # the remark says it
    assert comparison.reasons["verdict.otherPrograms"] in comparison.verdict
    assert comparison.answer != "Not comparable"
    assert comparison.ratios["speedup"]


QUIET_ENOUGH: dict[str, list[Run]] = {
    # Four ranks on two CPUs wait as long as they compute; others had next to nothing, as on every machine
    "waits of siblings": [
        beside(run, others=0.05, waited=0.03 if run.arm == "baseline" else 9.7) for run in make_runs()
    ],
    # It is said, and the run did not wait: `baseline` needs one CPU of several
    "other CPUs": [beside(run, others=1.0, waited=0.05) for run in make_runs()],
    # 3 %, of twice the CPU time where there are two ranks
    "as little in every arm": [beside(run, others=0.15, waited=0.3) for run in make_runs()],
}


@pytest.mark.parametrize("case", QUIET_ENOUGH)
def test_what_kept_no_run_waiting_more_than_others_does_no_harm(case: str) -> None:
    """It may be said all the same."""
    comparison = compared(QUIET_ENOUGH[case])

    assert True is comparison.checks["machineQuiet"]
    assert case != "other CPUs" or "verdict.otherPrograms" in comparison.reasons


def on_cpus(arm: str, affinities: Sequence[list[int] | None], quota: float | None = None, **waits: float) -> Comparison:
    """A measurement in which another program takes one CPU of four, and the ranks of an arm are bound to these CPUs."""

    def changed(run: Run) -> Run:
        run = beside(run, others=1.0, **waits)
        (first, *_) = run.result.workers
        workers = [replace(first, rank=rank, affinity=cpus) for rank, cpus in enumerate(affinities)]
        return replaced(run, workers=workers, provenance=replace(run.result.provenance, cpu_quota=quota))

    return compared([changed(run) if run.arm == arm else run for run in make_runs()])


ONE_CPU, FOUR_ON_TWO = [[0], [1]], [[0], [1], [0], [1]]


@pytest.mark.parametrize(
    ("comparison", "quiet"),
    [
        (on_cpus("native", ONE_CPU, waited=7.2, had=9.95), True),
        (on_cpus("native", ONE_CPU, waited=5.0, had=5.0), None),
        # One rank of several CPUs and more threads
        (on_cpus("baseline", [[0, 1]], waited=30.0, had=19.9), True),
        (on_cpus("baseline", [[0, 1]], waited=30.0, had=15.0), None),
        # Ranks that share their CPUs
        (on_cpus("native", FOUR_ON_TWO, waited=5.0, had=4.98), True),
        (on_cpus("native", FOUR_ON_TWO, waited=5.0, had=3.7), None),
        # Ranks of a script that may use all CPUs of the run
        (on_cpus("native", [[0, 1], [0, 1]], waited=5.0, had=9.95), True),
        (on_cpus("native", [[0, 1], [0, 1]], waited=5.0, had=8.5), None),
        # Nothing binds it: the quota alone says what it could have had
        (on_cpus("baseline", [None], quota=1.0, waited=7.2, had=9.95), True),
        (on_cpus("baseline", [None], waited=7.2, had=9.95), None),
    ],
)
def test_others_kept_from_a_run_at_most_what_its_cpus_had_left(comparison: Comparison, quiet: bool | None) -> None:
    """Its threads wait for each other, too: with all the time of its CPUs it lacked nothing, however long they did."""
    assert quiet is comparison.checks["machineQuiet"]


def test_what_is_named_is_what_others_kept_and_not_the_waiting() -> None:
    """Half of its CPU, so as much as it had; its threads waited twice as long, half of it for each other."""
    why = on_cpus("baseline", [[0]], waited=10.0, had=5.0).reasons["checks.machineQuiet"]

    assert "1.00" in why
    assert "2.00" not in why


def test_what_a_host_took_is_waiting_too() -> None:
    """Of a virtual machine: its own kernel takes a rank for running meanwhile, and it counts as no program's."""
    comparison = compared(with_one("ray-1", stolen=0.6))

    assert None is comparison.checks["machineQuiet"]
    assert "ray-1" in comparison.reasons["verdict.stolen"]
    assert "verdict.otherPrograms" not in comparison.reasons


def test_arms_that_others_met_unlike_are_not_told_apart_by_it() -> None:
    """3 % of one arm's time is less than the margin, and more than the interval of the ratio: that is bias."""
    runs = [beside(run, others=0.15, waited=0.3) if run.arm == "baseline" else run for run in make_runs()]
    comparison = compared(runs)

    assert None is comparison.checks["machineQuiet"]
    assert "baseline" in comparison.reasons["checks.machineQuiet"]


@pytest.mark.parametrize("lacks", ["machine", "waits"])
def test_what_nobody_counted_is_not_known(lacks: str) -> None:
    """As of a result of the version before, or of another system: with its reason, and never true."""

    def without(run: Run) -> Run:
        if lacks == "machine":
            return replaced(run, machine=None, reasons={"machine": "another system"})
        workers = [replace(worker, training_wait=None) for worker in run.result.workers]
        return replaced(run, workers=workers, reasons={"workers.trainingWait": "another system"})

    comparison = compared([without(run) for run in make_runs()])

    assert None is comparison.checks["machineQuiet"]
    assert comparison.reasons["checks.machineQuiet"].endswith("another system")
    assert (None is comparison.arms["ray"].measures["otherCpus"]) is (lacks == "machine")


def in_pod(run: Run, *, waited: float, pressure: float | None, throttled: float = 0.0) -> Run:
    """A run whose ranks are in pods, which are told of nobody else."""
    wait = CpuWait(seconds=10.0, cpu_seconds=9.7, waited_seconds=waited, pressure_seconds=pressure)
    workers = [
        replace(worker, pod=f"pod-{worker.rank}", training_wait=wait, throttled_seconds=throttled)
        for worker in run.result.workers
    ]
    return replaced(run, machine=None, workers=workers)


@pytest.mark.parametrize(
    ("waited", "pressure", "throttled", "quiet"),
    [
        (2.0, 2.0, 0.0, None),
        (2.0, None, 0.0, None),  # version 1 of cgroups
        (2.0, 0.1, 0.0, True),  # threads that waited at once are one wait of the pod
        (2.0, 2.0, 1.9, True),  # its own quota
        (0.2, 0.3, 0.0, True),
    ],
)
def test_in_pods_it_is_the_waiting_that_no_quota_explains(
    waited: float, pressure: float | None, throttled: float, quiet: bool | None
) -> None:
    """A pod sees its own pressure alone: who waited for more than 5 % of its CPU time had not its node to itself."""
    runs = [in_pod(run, waited=waited, pressure=pressure, throttled=throttled) for run in make_runs()]

    assert quiet is compared(runs, target="minikube").checks["machineQuiet"]


def test_runs_of_one_arm_that_had_different_cpus_are_named(wording: Wording) -> None:
    """By more than a fifth: the work is the same."""
    comparison = compared(with_one("baseline-2", mean=0.51))
    even = compared(with_one("baseline-2", mean=0.80))

    assert {"0.51", "0.97"} <= set(re.findall(r"\d\.\d+", comparison.reasons["verdict.unevenCpus"]))
    wording("verdict", comparison.reasons["verdict.unevenCpus"])
    assert "verdict.unevenCpus" not in even.reasons


def test_the_table_shows_others_where_they_took_something() -> None:
    """A line of zeros would say nothing; it has its place where one run had company."""
    quiet, loud = compared(make_runs()), compared(with_one("ray-2", others=1.6, waited=9.0, had=4.0))

    title = next(each.title for each in measures_of("cnn") if each.name == "otherCpus")
    assert title not in table.render(quiet)
    assert title in table.render(loud)
    assert max(len(line) for line in table.render(loud).splitlines()) <= table.WIDTH


def test_a_result_of_the_version_before_is_read() -> None:
    """It has none of these keys."""
    data = make_runs()[0].result.to_dict()
    del data["machine"]
    for worker in data["workers"]:
        del worker["trainingWait"], worker["runWait"]

    found = TrainingResult.from_dict(data)

    assert found.machine is None
    assert found.workers[0].training_wait is None


def test_no_time_is_no_rate() -> None:
    """A run of no length had no others."""
    use: MachineUse = quiet_machine(0.0, other_cpu_seconds=1.0, stolen_seconds=1.0)

    assert (0.0, 0.0) == (use.other_cpus, use.stolen_cpus)
