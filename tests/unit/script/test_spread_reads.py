"""The files that a plain script reads in its proof, which hold as long as these are as they were."""

import json
import os
import py_compile
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from training.contract.provenance import PROJECT
from training.workloads.script import plain, proving
from training.workloads.script.spread import reads

PROVES = """
import json, sys
from pathlib import Path
from training.workloads.script.spread import forks, reads
from training.workloads.script.spread.settings import Settings
run = Path(sys.argv[1], "alone")
private = run / "private-0"
private.mkdir(parents=True)
fork = forks.start(Settings(private=str(private)), sys.argv[2:], run / "printed-0")
forks.wait([fork], 600)
assert fork.code == 0, (run / "printed-0").read_text()
print(json.dumps(reads.of_runs(run.parent, sys.argv[2:])))
"""
SCRIPT = """
import ctypes, os, sys
from pathlib import Path
import helper
sys.path.append("../lib")
import elsewhere
exec(open("settings.py").read())
open("data.csv").read()
Path("config.json").read_bytes()
os.listdir("images")
os.listdir(".")
if os.fork() == 0:
    open("of_worker.csv")
    os._exit(0)
os.wait()
assert ctypes.CDLL(None).open(b"by_c.h5", 0) >= 0
Path("log.txt").open("a").write("step 1")
Path("model.pt").write_text("")
Path("model.pt").read_text()
try:
    open("absent.txt")
except FileNotFoundError:
    pass
"""
READ = {
    "data.csv", "config.json", "settings.py", "images", "of_worker.csv", "by_c.h5", "absent.txt", "table.parquet",
    "named.txt",
}  # fmt: skip


def test_what_a_script_reads(tmp_path: Path) -> None:
    """By Python's functions, in its workers, by a library that has it still open, or as its arguments name; of its code
    what is elsewhere, by which no outcome is named; not what it writes itself, as a log."""
    mine = tmp_path / "mine"
    (mine / "images").mkdir(parents=True)
    (mine / "train.py").write_text(SCRIPT, encoding="utf-8")
    for name in (*READ - {"images", "absent.txt"}, "log.txt", "helper.py", "unread.csv"):
        (mine / name).touch()
    elsewhere = tmp_path / "lib" / "elsewhere.py"
    elsewhere.parent.mkdir()
    elsewhere.touch()
    py_compile.compile(str(elsewhere))
    (tmp_path / "real").mkdir()
    (tmp_path / "proof").symlink_to(tmp_path / "real")
    arguments = ["train.py", "--epochs", "4", "--data=table.parquet", "named.txt"]
    command = [sys.executable, "-c", PROVES, str(tmp_path / "proof"), *arguments]
    around = {**os.environ, "PYTHONPATH": str(PROJECT)}
    proved = subprocess.run(command, cwd=mine, env=around, stdout=subprocess.PIPE, check=True, text=True)
    states = {Path(path): state for path, *state in json.loads(proved.stdout)}

    assert {elsewhere, *(mine / name for name in READ)} == {path for path in states if tmp_path in path.parents}
    assert [-1, 0] == states[mine / "absent.txt"]
    assert [0, (mine / "data.csv").stat().st_mtime_ns] == states[mine / "data.csv"]


def test_of_many_files_their_folders_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outcome holds no list of a million names."""
    monkeypatch.setattr(reads, "MOST_FILES", 2)
    run = tmp_path / "proof" / "alone"
    run.mkdir(parents=True)
    names = [tmp_path / "images" / each for each in ("1.png", "2.png", "3.png")]
    (run / f"{reads.NAME}0").write_text("".join(f"r{name}\0" for name in names))

    assert [str(tmp_path / "images")] == [path for path, *_ in reads.of_runs(tmp_path / "proof", ["train.py"])]


def later(path: Path) -> None:
    """Change a file without its size."""
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda _: None, True),
        (lambda folder: (folder / "unread.csv").write_text("2"), True),
        (lambda folder: (folder / "data.csv").write_text("12"), False),
        (lambda folder: later(folder / "data.csv"), False),
        (lambda folder: (folder / "data.csv").unlink(), False),
        (lambda folder: (folder / "absent.txt").touch(), False),
        (lambda folder: (folder / "images" / "9.png").touch(), False),
    ],
)
def test_an_outcome_counts_as_long_as_what_was_read_is_there(
    tmp_path: Path, change: Callable[[Path], object], *, counts: bool
) -> None:
    """Whatever the key says; what is the run's own is gone with it."""
    folder, kept, own = tmp_path / "mine", tmp_path / "kept", tmp_path / "run"
    for each in (folder / "images", own):
        each.mkdir(parents=True)
    for name in ("data.csv", "unread.csv"):
        (folder / name).write_text("1")
    later(folder / "images")
    read = [folder / "data.csv", folder / "absent.txt", folder / "images", own / "storage" / "vocabulary.txt"]
    outcome = {"outcome": "equal", "plan": {}, "reads": [[str(path), *reads.state(str(path))] for path in read]}
    (own / "storage").mkdir()
    (own / "storage" / "vocabulary.txt").touch()
    (own / plain.OUTCOME).write_text(json.dumps(outcome), encoding="utf-8")
    taken = proving.taken(own / plain.OUTCOME, (), plain.NO_OUTCOME)
    proving.keep("key", taken, kept)
    change(folder)

    assert counts is (proving.kept("key", kept) is not None)
