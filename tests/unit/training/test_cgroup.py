"""CPU quota and memory limit over a process, from the files of both versions of cgroups."""

from pathlib import Path

import pytest

from training.machine import cgroup


def quota_of(root: Path, membership: str, **files: str) -> float | None:
    """The quota with these files (`/` written as `__`) under the cgroups' folder."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("cpu_max", "cpu.max").replace("cfs", "cpu.cfs")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "membership").write_text(membership)
    return cgroup.cpu_quota(root, root / "membership")


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/\n", {"cpu_max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu_max": "max 100000\n"}, None),
        ("0::/user.slice/run.scope\n", {"user.slice__run.scope__cpu_max": "50000 100000\n"}, 0.5),
        ("0::/a/b\n", {"a__cpu_max": "100000 100000\n", "a__b__cpu_max": "400000 100000\n"}, 1.0),
        ("4:cpu,cpuacct:/docker/x\n", {"cpu__cfs_quota_us": "200000\n", "cpu__cfs_period_us": "100000\n"}, 2.0),
        ("4:cpu:/\n", {"cpu__cfs_quota_us": "-1\n", "cpu__cfs_period_us": "100000\n"}, None),
        ("0::/gone\n", {}, None),
        ("", {}, None),
    ],
)
def test_the_tightest_quota_counts(membership: str, files: dict[str, str], quota: float | None, tmp_path: Path) -> None:
    """Of this process's cgroup and all above; in a container the folder's top is its own. No quota is None."""
    assert quota == quota_of(tmp_path, membership, **files)


def test_throttling_is_read_where_the_quota_is(tmp_path: Path) -> None:
    """systemd's CPUQuota is in a cgroup of its own, and the machine's counts know nothing of it."""
    quota_of(tmp_path, "0::/run.scope\n", **{"run.scope__cpu_max": "50000 100000\n"})

    assert tmp_path / "run.scope" == cgroup.throttled_folder(tmp_path, tmp_path / "membership")


@pytest.mark.parametrize(
    ("membership", "files", "kills", "limit"),
    [
        ("0::/\n", {"memory.events": "oom 2\noom_kill 3\n", "memory.max": "1073741824\n"}, 3, 2**30),
        ("0::/\n", {"memory.events": "oom 0\noom_kill 0\n", "memory.max": "max\n"}, 0, None),
        ("5:memory:/x\n", {"memory/x/memory.oom_control": "under_oom 0\noom_kill 1\n",
                           "memory/x/memory.limit_in_bytes": "9223372036854771712\n"}, 1, None),
        ("5:memory:/\n", {"memory/memory.oom_control": "oom_kill_disable 0\n",
                          "memory/memory.limit_in_bytes": "536870912\n"}, 0, 2**29),
        ("", {}, 0, None),
    ],
)  # fmt: skip
def test_what_was_killed_for_memory_is_counted(
    membership: str, files: dict[str, str], kills: int, limit: int | None, tmp_path: Path
) -> None:
    """And how much there may be; without a limit that is None."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "membership").write_text(membership)

    assert kills == cgroup.memory_kills(tmp_path, tmp_path / "membership")
    assert limit == cgroup.memory_limit(tmp_path, tmp_path / "membership")
