"""Measures the observer of scripts on one NVIDIA GPU: python -m bench.gpu PYTHON [--minutes N] [--into FILE]

PYTHON is the interpreter of an environment with PyTorch; this one needs psutil. Each part says what it found as soon as
it has it, and why where it failed; what hangs is ended, so that all is over in time. With `--device cpu` the same steps
run without a GPU, and the parts that need one are left out. Measures; passes no judgement.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.observer import Repeat, repeat_of, run, step_seconds, summary
from training.contract import provenance, result
from training.machine import gpus, machine_lock
from training.workloads.script.commands import WITHOUT_GPU
from training.workloads.script.observation_files import read
from training.workloads.script.observations import Observation

STEPS = provenance.PROJECT / "bench" / "gpu" / "steps.py"
WIDTHS = (256, 2048, 8192)
"""Widths of the network's layers. At the smallest width the CPU hands a step to the GPU more slowly than the GPU
computes it; at the others the computation takes longer."""
FULL, SHORT = ("--steps", "300"), ("--steps", "60")
MINUTES = 9.0
RUN_SECONDS, KILL_SECONDS = 90, 5
"""Most seconds of a run on a GPU, and seconds after SIGTERM until a run that has not ended is killed."""
ENDED = 124
"""The exit code of the program `timeout` if it had to end its command."""
SMI = ("utilization.gpu", "memory.used", "power.draw", "clocks.sm")
"""Columns of nvidia-smi, in the order of the observer's samples: percent, MiB, watts, MHz."""
MIB = 2**20


@dataclass(frozen=True)
class Written:
    """What the script measured with PyTorch's own functions; its fields are None without a GPU."""

    peak_memory_bytes: int | None
    profiled: Mapping[str, float | None] | None
    """Seconds of a step as measured by the profiler and by CUDA events."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where and how the steps run."""

    python: str
    device: str
    gpu: Mapping[str, str]
    folder: Path
    until: float
    """Time by the monotonic clock at which all parts have to be finished."""

    def left(self) -> float:
        """Return the seconds that remain until all parts have to be finished."""
        return self.until - time.monotonic()

    def in_time(self, command: Sequence[str]) -> list[str]:
        """Return the command with `timeout` before it, which ends it, and torchrun's ranks with it, in time."""
        most = RUN_SECONDS if self.device == "cuda" else self.left()  # no CPU's speed is known
        seconds = max(1, int(min(most, self.left() - KILL_SECONDS)))
        return ["timeout", f"--kill-after={KILL_SECONDS}", str(seconds), *command]

    def command(self, *options: str, ranks: int = 1) -> list[str]:
        """Return the command that trains with these options."""
        # The name of a machine without a network may mean no address.
        torchrun = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--local-addr=127.0.0.1",
            f"--nproc-per-node={ranks}",
        ]
        steps = [str(STEPS), "--device", self.device, *options]
        return self.in_time([self.python, *(torchrun if ranks > 1 else []), *steps])

    def seen(self, *options: str, ranks: int = 1) -> tuple[list[Observation], Written]:
        """Run the script once with the observer. Return what it saw of each rank, and what the script itself wrote."""
        with tempfile.TemporaryDirectory(dir=self.folder) as own:
            ticks = Path(own, "ticks.json")
            run(self.command(*options, ranks=ranks), ticks, Path(own), self.gpu)
            more = json.loads(Path(f"{ticks}.more").read_text(encoding="utf-8"))
            return read(Path(own)), Written(more["peakMemoryBytes"], more["profiled"])


def clocks(bench: Bench, width: int, repeats: int) -> Iterator[str]:
    """Yield lines that compare the observer's clock with the script's own, and a step with the observer and without."""
    options = (*FULL, "--width", str(width))
    pairs: list[Repeat] = []
    every, longest = None, 0.0
    for number in range(repeats):
        if pairs and bench.left() < longest:
            break
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=bench.folder) as own:
            ticks = {observed: Path(own, f"{observed}.json") for observed in ((True, False), (False, True))[number % 2]}
            steps = {
                observed: step_seconds(bench.command(*options), path, Path(own) if observed else None, bench.gpu)
                for observed, path in ticks.items()
            }
            (seen,) = read(Path(own))
            off = span_ratio(seen, json.loads(ticks[True].read_text(encoding="utf-8")))
        every = seen.device_every
        pairs.append(repeat_of(seen, steps[True] * off, steps))
        longest = max(longest, time.monotonic() - began)
    yield f"width {width}{f', waited for after {every} steps at a time' if every else ''}"
    yield from summary(pairs).splitlines()


def span_ratio(seen: Observation, ticks: Sequence[float]) -> float:
    """Return the seconds of the later half of the steps by the observer's clock, divided by those by the script's own
    clock.

    Both clocks begin and end at the same steps: with a GPU, at steps after which the observer waited for the GPU. The
    time that the observer itself takes is counted by the script's clock, and not by the observer's.
    """
    marks = seen.device_marks or tuple(enumerate(seen.step_ends, 1))
    (first, began), (last, ended) = marks[len(marks) // 2], marks[-1]
    return (ended - began) / (ticks[last - 1] - ticks[first - 1])


def profiled(bench: Bench) -> Iterator[str]:
    """Yield lines with the time of a step as measured by PyTorch's profiler and by CUDA events, for the same steps."""
    _, written = bench.seen(*FULL, "--width", str(WIDTHS[-1]), "--profile")
    for name, seconds in (written.profiled or {}).items():
        yield f"a step by {name}: {'not known' if seconds is None else f'{1000 * seconds:.3f} ms'}"


def memory_and_use(bench: Bench) -> Iterator[str]:
    """Yield lines with the medians of the observer's samples beside those of nvidia-smi for the same time, and with the
    peak memory."""
    query = ["nvidia-smi", f"--query-gpu={','.join(SMI)}", "--format=csv,noheader,nounits", "--loop=1"]
    query += [f"--id={bench.gpu['CUDA_VISIBLE_DEVICES']}"]
    with subprocess.Popen(query, stdout=subprocess.PIPE, text=True) as smi:
        try:
            (seen,), written = bench.seen("--steps", "2000", "--width", str(WIDTHS[-1]))
        finally:
            smi.terminate()
        lines = [line.split(", ") for line in (smi.stdout or ()) if line.count(",") == len(SMI) - 1]
    if seen.gpu is None:
        return
    yield f"{seen.gpu.name}, driver {seen.gpu.driver}, highest clock {seen.gpu.max_sm_mhz} MHz"
    yield f"most memory by PyTorch: observer {seen.gpu.peak_memory_bytes}, script {written.peak_memory_bytes} bytes"
    yield f"held back: {seen.gpu.throttled}; not known: {dict(seen.gpu_reasons) or 'nothing'}"
    order = ((1, 0, 1.0), (4, 1, MIB), (2, 2, 1.0), (3, 3, 1.0))
    for sample, column, unit in order:
        ours = [value / unit for each in seen.gpu.samples if (value := each[sample]) is not None]
        theirs = [float(line[column]) for line in lines if line[column].strip().replace(".", "", 1).isdigit()]
        yield f"{SMI[column]}: observer {_middle(ours)}, nvidia-smi {_middle(theirs)}"


def _middle(values: Sequence[float]) -> str:
    """Return in words the number of values, and the median of the later half, when the script is surely training."""
    later = values[len(values) // 2 :]
    return f"{statistics.median(later):.0f} ({len(values)} samples)" if later else "none"


def which_gpu(bench: Bench) -> Iterator[str]:
    """Yield the GPU that the observer sees: with parameters in host memory, on the CPU, and of two ranks on one GPU."""
    for words, options, ranks in (
        ("parameters in the host's memory", ("--offload",), 1),
        ("a script that computes on the CPU", ("--device", "cpu"), 1),
        ("two ranks on one GPU", (), 2),
    ):
        seen, _ = bench.seen(*SHORT, *options, ranks=ranks)
        uuids = [each.gpu.uuid if each.gpu else None for each in seen]
        yield f"{words}: {', '.join(uuid or 'no GPU' for uuid in uuids)}"


def arms(bench: Bench) -> Iterator[str]:
    """Yield a line for each arm with the times and GPUs of its run, which is started as `pulumi up` starts it, with a
    GPU for each worker."""
    for arm, workers in (("baseline", 1), ("native", 2), ("wide", 2)):
        path = bench.folder / arm / "result.json"
        command = [sys.executable, "-m", f"training.{arm}", "--workload=script", f"--result={path}"]
        command += [f"--script={STEPS}", f"--python={bench.python}", f"--workers={workers}"]
        command += [f"--worker-gpus={int(bench.device == 'cuda')}"]
        command += [f"--script-arguments=--device {bench.device} {' '.join(SHORT)}"]
        done = subprocess.run(
            bench.in_time(command), cwd=provenance.PROJECT, capture_output=True, text=True, check=False
        )
        if done.returncode == ENDED:
            yield f"{arm}: had not ended in time"
            continue
        if done.returncode:
            yield f"{arm}: exit code {done.returncode}: {(done.stdout + done.stderr).strip().splitlines()[-1:]}"
            continue
        ended = result.read(path)
        on = ", ".join(worker.gpu.name or "a GPU" if worker.gpu else "no GPU" for worker in ended.workers)
        yield f"{arm}: trained {ended.seconds.train} s, whole {ended.seconds.wall} s, on {on}"


def main() -> None:
    """Measure one part after the other while there is time, and print its lines, or why it failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("python", help="the interpreter of an environment with PyTorch")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="after which all is over")
    parser.add_argument("--repeats", type=int, default=6, help="pairs of runs of each width")
    parser.add_argument("--into", type=Path, help="a file that gets the same lines")
    options = parser.parse_args()
    python = shutil.which(options.python)
    if python is None:
        parser.error(f"{options.python} is no program here")
    until = time.monotonic() + 60 * options.minutes
    machine_lock.hold(lambda text: print(text, file=sys.stderr))
    is_gpu = options.device == "cuda"
    try:
        variables = {"CUDA_VISIBLE_DEVICES": gpus.first(1)[0]} if is_gpu else WITHOUT_GPU
    except gpus.NoGpusError as error:
        sys.exit(f"error: {error}; `--device cpu` runs the same steps without a GPU")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            python=str(Path(python).absolute()), device=options.device, gpu=variables, folder=Path(folder), until=until
        )
        parts = {each.__name__: each(bench) for each in (which_gpu, memory_and_use, arms, profiled)} if is_gpu else {}
        widths = WIDTHS if is_gpu else WIDTHS[:1]
        parts |= {f"clocks, width {width}": clocks(bench, width, options.repeats) for width in widths}
        for name, lines in parts.items():
            for line in in_words(name, lines, bench):
                _say(line, options.into)


def in_words(name: str, lines: Iterator[str], bench: Bench) -> Iterator[str]:
    """Yield the lines of a part; if the part failed or was not started, yield a line that says so."""
    if bench.left() < KILL_SECONDS:
        yield f"{name}: not begun"
        return
    try:
        yield from lines
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever it is, the other parts can be measured)
        yield f"{name}: {error!r}"


def _say(line: str, into: Path | None) -> None:
    print(line, flush=True)
    if into:
        with into.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    main()
