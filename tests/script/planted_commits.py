"""What `rwi compare-commits` says of slow-downs that were planted: `python -m tests.script.planted_commits`.

A small repository gets a commit for each slow-down; where nothing is slower, a comment alone differs. Each trial is one
whole call on this machine, with one arm.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from cli.commits.checkouts import git
from cli.setup.project import ROOT

PERCENT = (0, 10, 30)
SCRIPT = """import time

until = {rounds}
total = 0
for step in range(until):
    total += step * step % 7
print(total)  # {percent} percent
"""
"""A computation of so many rounds: no pause that other programs would not disturb."""


def rounds_of(seconds: float) -> int:
    """Return how many rounds of the script take so many CPU seconds on this machine."""
    tried, start = 10_000_000, os.times().children_user
    subprocess.run([sys.executable, "-c", SCRIPT.format(rounds=tried, percent="-")], check=True, capture_output=True)
    return int(tried * seconds / (os.times().children_user - start))


def repository(folder: Path, rounds: int) -> Path:
    """Make a repository with the tags base and p0, p10, p30; return the script's path."""
    subprocess.run(["git", "init", "-qb", "main", str(folder)], check=True)
    for key in ("user.email", "user.name"):
        git(folder, "config", key, "a@example.org")
    for tag, percent in {"base": "no", **{f"p{each}": str(each) for each in PERCENT}}.items():
        more = 0 if tag == "base" else int(percent)
        text = SCRIPT.format(rounds=int(rounds * (1 + more / 100)), percent=percent)
        (folder / "train.py").write_text(text, encoding="utf-8")
        git(folder, "add", "train.py")
        git(folder, "commit", "-qm", tag)
        git(folder, "tag", tag)
    return folder / "train.py"


def trial(script: Path, tag: str, minutes: float) -> tuple[int, float, float, float, int]:
    """Return a call's status, its ratio with its interval, and its repeats."""
    kept = script.parent.parent / "out.json"
    options = ["--python", sys.executable, "--arms", "baseline", "--json", str(kept), "--minutes", str(minutes)]
    command = [sys.executable, "-m", "cli.door", "compare-commits", "base", tag, str(script), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stdout + done.stderr)
    arm = json.loads(kept.read_text(encoding="utf-8"))["arms"]["baseline"]
    ratio = arm["ratio"]
    return done.returncode, ratio["median"], ratio["lower"], ratio["upper"], len(arm["headSeconds"])


def main() -> None:
    """Print each trial as it ends, then a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.script.planted_commits", description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.0, help="that the base's computation takes")
    parser.add_argument("--minutes", type=float, default=10.0, help="budget of a call")
    options = parser.parse_args()
    said: dict[int, Counter[str]] = {percent: Counter() for percent in PERCENT}
    repeats: dict[int, list[int]] = {percent: [] for percent in PERCENT}
    with tempfile.TemporaryDirectory() as folder:
        script = repository(Path(folder, "mine"), rounds_of(options.seconds))
        for number in range(options.trials):
            for percent in PERCENT:
                status, ratio, lower, upper, made = trial(script, f"p{percent}", options.minutes)
                word = "slower" if status == 3 else "faster" if upper < 1 else "no change shown"
                said[percent][word] += 1
                repeats[percent].append(made)
                print(f"{number + 1:2d}  {percent:2d} %  {word:16} {ratio:.3f} ({lower:.3f} to {upper:.3f})  {made}",
                      flush=True)  # fmt: skip
    print("| planted | slower | faster | no change shown | repeats |\n| --- | --- | --- | --- | --- |")
    for percent, words in said.items():
        cells = [str(words[word]) for word in ("slower", "faster", "no change shown")]
        mean = sum(repeats[percent]) / options.trials
        print(f"| {percent} % | {' | '.join(cells)} | {mean:.1f} |")


if __name__ == "__main__":
    main()
