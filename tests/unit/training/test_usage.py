"""What a process reads of its container's cgroup, in both versions of cgroups and where there is none."""

import time
from pathlib import Path

import pytest

from training.launch import entry, usage

VERSION_2 = "usage_usec 2500000\nuser_usec 2000000\nnr_throttled 3\nthrottled_usec 1250000\n"
VERSION_1 = "nr_periods 10\nnr_throttled 3\nthrottled_time 1250000000\n"


@pytest.fixture(params=["2", "1"])
def cgroup(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of either version: 2.5 s used, held back for 1.25 s."""
    stats = tmp_path / "cpu.stat"
    stats.write_text(VERSION_2 if request.param == "2" else VERSION_1)
    if request.param == "1":
        (tmp_path / "cpuacct.usage").write_text("2500000000\n")
    monkeypatch.setattr(usage, "CGROUP_STATS", (tmp_path / "absent", stats))
    monkeypatch.setattr(usage, "CGROUP_USAGE", tmp_path / "cpuacct.usage")
    return tmp_path


def test_both_versions_count_what_a_container_used_and_was_held_back(cgroup: Path) -> None:
    """Microseconds in one, nanoseconds in the other."""
    before = time.time()
    read = usage.container_cpu(less=0.5)
    after = time.time()

    assert read is not None
    assert read[1] == 2.0
    assert before <= read[0] <= after
    assert usage.throttled_seconds() == 1.25


def test_a_container_is_read_at_the_start_and_now(cgroup: Path) -> None:
    """Not at all where the start was not read: then nobody asks."""
    assert usage.container_cpu_since(None) is None
    both = usage.container_cpu_since([1.0, 0.5])

    assert both is not None
    assert both[0] == [1.0, 0.5]
    assert both[1][1] == 2.5


def test_without_a_cgroup_there_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None, never 0."""
    monkeypatch.setattr(usage, "CGROUP_STATS", (tmp_path / "absent",))
    monkeypatch.setattr(usage, "CGROUP_USAGE", tmp_path / "absent")

    assert usage.container_cpu() is None
    assert usage.container_cpu_since([1.0, 0.5]) is None
    assert usage.throttled_seconds() is None


@pytest.mark.parametrize("bound", [True, False])
def test_an_entry_point_reads_its_container_where_no_cpu_is_bound(bound: bool, cgroup: Path, tmp_path: Path) -> None:
    """In a pod; what the process itself has used until then belongs to its run."""
    flags = ["--result", str(tmp_path / "result.json"), *([] if bound else ["--no-bind-cpus"])]
    read = entry.container_cpu_at_start(entry.parse("baseline", None, flags))

    assert bound == (read is None)
    assert read is None or 2.5 - time.process_time() <= read[1] < 2.5


def threads_of(names: str, first: int = 100) -> set[usage.Thread]:
    """Threads that were started one after another within a tick of the clock."""
    return {usage.Thread(7, first + place, name) for place, name in enumerate(names.split())}


@pytest.mark.parametrize(
    ("names", "count"),
    [
        ("python tf_Compute tf_Compute tf_graph_runner", 1),
        ("tf_graph_runner python python tf_Compute", 2),
        ("python python python tf_Compute grpc_global_tim python python event_engine python tf_Compute python", 3),
        ("ray::RayTrainWo tf_Compute python", 1),
        ("tf_numa_0_Eigen tf_numa_0_Eigen tf_Compute", 2),
        ("python python", None),
        ("", None),
    ],
)
def test_the_threads_of_the_framework_s_pool_are_counted(names: str, count: int | None) -> None:
    """As TensorFlow 2.21 starts them alone, among gRPC's, in Ray's process, and where it knows NUMA nodes."""
    before = threads_of("python usage", first=1)

    assert count == usage.pool_threads(before, before | threads_of(names))


@pytest.mark.parametrize("given_before", range(8))
def test_numbers_of_threads_that_begin_again_are_younger(given_before: int) -> None:
    """Linux counts to 32767 on a small machine, and goes on with low numbers: in the midst of a tick, too."""
    names = ["python", "python", *["tf_Compute"] * 2, *["grpc"] * 4]
    numbers = [*range(32768 - given_before, 32768), *range(300, 308 - given_before)]
    started = {usage.Thread(7, number, name) for number, name in zip(numbers, names, strict=True)}

    assert usage.pool_threads(threads_of("python", first=1), started) == 2


def test_without_a_list_of_threads_there_is_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS: null, with a reason, and not what was asked for."""
    monkeypatch.setattr(usage, "TASKS", tmp_path / "absent")

    assert usage.threads() is None
    assert usage.pool_threads(None, None) is None
