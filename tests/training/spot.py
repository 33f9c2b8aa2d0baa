"""A training that is killed at random times, against what `compare.spot` expects: `python -m tests.training.spot`.

The arm `baseline` with a checkpoint after every epoch is killed and started again until it ends. Its clock is that of
its own CPU seconds, so other programs change little. Undisturbed runs in between say what is expected.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare.run_numbers import HOUR
from compare.schema import SpotCourse
from compare.spot import expected_seconds, whole
from tests.simulations.spot import interval_of_mean
from training.contract import progress

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ("--workers=2", "--train-images=192", "--checkpoint-epochs=1")
POLL_SECONDS = 0.05


def attempt(folder: Path, epochs: int, until: float) -> tuple[float, dict[str, list[float]], bool]:
    """Train until `until` CPU seconds; return CPU seconds taken, those at each event, and whether it ended."""
    result = Path(tempfile.mkdtemp(dir=folder)) / "result.json"
    command = [sys.executable, "-m", "training.baseline", f"--result={result}", f"--storage={folder / 'kept'}"]
    events: dict[str, list[float]] = {"epoch": [], "checkpoint": []}
    offset, taken = 0, 0.0
    with (result.parent / "log.txt").open("wb") as log:
        running = subprocess.Popen([*command, f"--epochs={epochs}", *RECIPE], cwd=ROOT, stdout=log, stderr=log)
    try:
        while taken < until and os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            fields = Path(f"/proc/{running.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            taken = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # with that of its ended children
            seen, offset = progress.read_new(result.parent / progress.NAME, offset)
            for event in seen:
                events.get(event["event"], []).append(taken)
            time.sleep(POLL_SECONDS)
    finally:
        running.kill()
    if running.wait() not in (0, -signal.SIGKILL):
        raise SystemExit((result.parent / "log.txt").read_text(encoding="utf-8"))
    return min(taken, until), events, running.returncode == 0


def undisturbed(epochs: int) -> SpotCourse:
    """Return the parts of a run that nobody kills."""
    with tempfile.TemporaryDirectory() as folder:
        taken, events, _ = attempt(Path(folder), epochs, float("inf"))
    trained, kept = events["epoch"], events["checkpoint"]
    segment = (kept[-1] - kept[0]) / (epochs - 1)
    saving = statistics.fmean(after - before for before, after in zip(trained, kept, strict=True))
    return SpotCourse(kept[0] - segment, epochs, segment - saving, saving, taken - kept[-1])


def disturbed(epochs: int, per_hour: float, rng: random.Random) -> tuple[float, int]:
    """Return the CPU seconds of a run with all its restarts, and how often it was killed."""
    seconds, kills = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        while True:
            taken, _, ended = attempt(Path(folder), epochs, rng.expovariate(per_hour / HOUR))
            seconds += taken
            if ended:
                return seconds, kills
            kills += 1


def main() -> int:
    """Print every run and the verdict; return 1 if the mean lies outside what was expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("runs", 10), ("seed", 1), ("epochs", 4), ("minutes", 60)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--kills", type=float, default=0.8, help="expected while an undisturbed run takes")
    args = parser.parse_args()
    rng, courses, taken = random.Random(args.seed), [undisturbed(args.epochs)], list[float]()  # noqa: S311
    per_hour, deadline = args.kills * HOUR / whole(courses[0]), time.monotonic() + 60 * args.minutes
    for number in range(1, args.runs + 1):
        print(courses[-1], flush=True)
        seconds, kills = disturbed(args.epochs, per_hour, rng)
        taken.append(seconds)
        print(f"run {number}: {seconds:.1f} CPU s, killed {kills} times; load {os.getloadavg()[0]:.1f}", flush=True)
        if time.monotonic() > deadline:
            break
        courses += [undisturbed(args.epochs)] if number % 3 == 0 else []
    expected = statistics.fmean(expected_seconds(course, per_hour, 1) for course in courses)
    low, high = interval_of_mean(courses, per_hour, 1, len(taken), random.Random(args.seed))  # noqa: S311
    mean = statistics.fmean(taken)
    print(f"{len(taken)} runs: mean {mean:.1f} CPU s; expected {expected:.1f}, in {low:.1f} to {high:.1f}")
    print(f"undisturbed and without checkpoints {whole(courses[0]):.1f}; {per_hour:.1f} kills an hour")
    return 0 if low <= mean <= high else 1


if __name__ == "__main__":
    sys.exit(main())
