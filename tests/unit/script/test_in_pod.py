"""What an observation says of its pod, with the files of a container of either version of cgroups."""

from pathlib import Path

import pytest

from training.workloads.script.observation_files import parse
from training.workloads.script.observations import RankPod
from training.workloads.script.observe import in_pod, state


@pytest.fixture
def cgroup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where a container's counts are."""
    monkeypatch.setenv(in_pod.NODE, "node-a")
    monkeypatch.setattr(in_pod, "CGROUP_STATS", (tmp_path / "cpu.stat",))
    monkeypatch.setattr(in_pod, "CGROUP_USAGE", tmp_path / "usage")
    return tmp_path


def observed(cgroup: Path, *texts: dict[str, str]) -> RankPod | None:
    """Of a rank whose container had the first counts when it began, and the others at its end."""
    for name, text in texts[0].items():
        (cgroup / name).write_text(text)
    made = state.State()
    made.step_ends = [1.0]
    for name, text in texts[1].items():
        (cgroup / name).write_text(text)
    return parse(made.to_dict()).pod


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"cpu.stat": "usage_usec 5000000\nthrottled_usec 1000000\n"},
            {"cpu.stat": "usage_usec 9000000\nthrottled_usec 1500000\n"},
        ),
        # In nanoseconds, and in two files.
        (
            {"cpu.stat": "nr_periods 5\nthrottled_time 1000000000\n", "usage": "5000000000\n"},
            {"cpu.stat": "nr_periods 9\nthrottled_time 1500000000\n", "usage": "9000000000\n"},
        ),
    ],
    ids=["version 2", "version 1"],
)
def test_a_rank_says_what_its_container_used_and_was_held_back(
    cgroup: Path, before: dict[str, str], after: dict[str, str]
) -> None:
    """Since this rank began: Ray's pods live on from run to run."""
    found = observed(cgroup, before, after)

    assert found is not None
    assert ("node-a", 0.5) == (found.node, found.throttled_seconds)
    assert found.container_cpu is not None
    (_, at_first), (_, at_last) = found.container_cpu
    assert at_first < 5.0
    assert 9.0 == at_last


def test_what_is_not_counted_is_no_number(cgroup: Path) -> None:
    """A system without these files."""
    found = observed(cgroup, {}, {})

    assert found is not None
    assert (None, None) == (found.throttled_seconds, found.container_cpu)


def test_outside_of_pods_there_is_none(cgroup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine."""
    monkeypatch.delenv(in_pod.NODE)

    assert observed(cgroup, {}, {}) is None
