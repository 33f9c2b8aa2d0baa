"""The order in which CPUs are given to workers, on the topologies of real machines, from a sysfs of files."""

from pathlib import Path

import pytest

from training.launch import environment
from training.machine import topology
from training.workloads.cnn.workload import WORKLOAD


class Machine:
    """A sysfs under a folder: cores are given as the CPUs of their threads."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def core(self, *cpus: int, node: int | None = 0, listed: str = "", name: str = "core_cpus_list") -> "Machine":
        """Add a core, with what the kernel lists as its threads."""
        for cpu in cpus:
            folder = self.root / f"devices/system/cpu/cpu{cpu}"
            (folder / "topology").mkdir(parents=True)
            (folder / "topology" / name).write_text((listed or ",".join(map(str, cpus))) + "\n")
            if node is not None:
                (folder / f"node{node}").mkdir()
        return self

    def write(self, path: str, text: str) -> "Machine":
        """Another file of sysfs."""
        file = self.root / "devices" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
        return self

    def order(self, *cpus: int) -> list[int]:
        """The CPUs as workers get them."""
        return topology.order(cpus, self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """An empty one."""
    return Machine(tmp_path)


def test_siblings_beside_each_other_are_given_last(machine: Machine) -> None:
    """Azure, GitHub's runners and Intel's P-cores: 0 and 1 are one core."""
    machine.core(0, 1, listed="0-1").core(2, 3, listed="2-3")

    assert [0, 2, 1, 3] == machine.order(0, 1, 2, 3)


def test_siblings_half_the_machine_apart_are_given_last(machine: Machine) -> None:
    """Most servers: CPU n and n + half are one core."""
    for core in range(4):
        machine.core(core, core + 4)

    assert [0, 1, 2, 3, 4, 5, 6, 7] == machine.order(*range(8))


def test_the_name_of_older_kernels_is_read_too(machine: Machine) -> None:
    """Before 5.3 core_cpus_list is thread_siblings_list."""
    machine.core(0, 1, name="thread_siblings_list").core(2, 3, name="thread_siblings_list")

    assert [0, 2, 1, 3] == machine.order(0, 1, 2, 3)


def test_intel_s_fast_cores_come_first_and_second_threads_after_all_cores(machine: Machine) -> None:
    """Two P-cores with two threads each and four E-cores; the E-cores are numbered last, as on the real ones."""
    machine.core(0, 1).core(2, 3)
    for core in range(4, 8):
        machine.core(core)
    machine.write("cpu_core/cpus", "0-3").write("cpu_atom/cpus", "4-7")

    assert [0, 2, 4, 5, 6, 7, 1, 3] == machine.order(*range(8))
    places = topology.read(range(8), machine.root)
    assert places is not None
    assert (2, 4) == topology.cores_by_kind(places)


@pytest.mark.parametrize("file", ["cpu_capacity", "cpufreq/cpuinfo_max_freq"])
def test_arm_s_big_cores_come_before_the_little_ones(machine: Machine, file: str) -> None:
    """big.LITTLE numbers its little cores first; a middle kind is a kind of its own."""
    for core, speed in enumerate((400, 400, 400, 400, 800, 800, 1024)):
        machine.core(core).write(f"system/cpu/cpu{core}/{file}", str(speed))

    assert [6, 4, 5, 0, 1, 2, 3] == machine.order(*range(7))


def test_cores_that_turbo_a_little_higher_are_no_kind_of_their_own(machine: Machine) -> None:
    """The favoured cores of a desktop processor reach 5.8 GHz where the others reach 5.5."""
    for core, speed in enumerate((5_500_000, 5_500_000, 5_800_000)):
        machine.core(core).write(f"system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq", str(speed))

    assert [0, 1, 2] == machine.order(0, 1, 2)


def test_the_cores_of_one_numa_node_come_before_the_other_s(machine: Machine) -> None:
    """Two sockets whose CPUs are numbered in turns; the second threads of both come last."""
    for core in range(4):
        machine.core(core, core + 4, node=core % 2)

    assert [0, 2, 1, 3, 4, 6, 5, 7] == machine.order(*range(8))
    places = topology.read([1, 2], machine.root)
    assert places is not None
    assert [1, 0] == [place.numa_node for place in places]


def test_a_sibling_that_is_offline_is_not_missed(machine: Machine) -> None:
    """SMT switched off: the files of CPUs 2 and 3 are gone, and the lists name who is left."""
    machine.core(0).core(1)
    (machine.root / "devices/system/cpu/cpu2").mkdir()

    assert [0, 1] == machine.order(0, 1)
    assert [0, 1, 2] == machine.order(0, 1, 2)


def test_a_cpuset_of_odd_cpus_has_one_thread_of_each_core(machine: Machine) -> None:
    """Only 1, 3 and 5 are allowed, and 0, 2 and 4 are their siblings: three cores, and each its own."""
    machine.core(0, 1).core(2, 3).core(4, 5)
    places = topology.read([1, 3, 5], machine.root)

    assert [1, 3, 5] == machine.order(1, 3, 5)
    assert places is not None
    assert [0, 2, 4] == [place.core for place in places]
    assert (3,) == topology.cores_by_kind(places)


def test_without_sysfs_cpus_are_taken_by_number(tmp_path: Path) -> None:
    """macOS, and sandboxes that hide it: nothing is claimed."""
    assert [0, 1, 2] == topology.order([2, 0, 1], tmp_path)
    assert topology.read([0, 1], tmp_path) is None


@pytest.mark.parametrize(("text", "cpus"), [("0-2,8\n", [0, 1, 2, 8]), ("5", [5]), ("\n", [])])
def test_a_list_of_cpus_reads_as_the_kernel_writes_it(text: str, cpus: list[int]) -> None:
    """Ranges and single ones; a line end; none."""
    assert cpus == topology.cpu_list(text)


def test_workers_are_bound_to_different_cores(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `prepare` binds ranks 0 and 1 to on two cores of two threads each; on this machine or any other."""
    machine.core(0, 1).core(2, 3)
    bound: list[set[int]] = []
    monkeypatch.setattr("os.sched_setaffinity", lambda _, cpus: bound.append(set(cpus)), raising=False)
    monkeypatch.setattr("os.environ", {})
    real = topology.order
    monkeypatch.setattr(topology, "order", lambda cpus: real(cpus, machine.root))

    for rank in range(2):
        assert environment.prepare(WORKLOAD, 1, rank, [0, 1, 2, 3])

    assert [{0}, {2}] == bound
