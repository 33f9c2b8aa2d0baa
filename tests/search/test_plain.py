"""Trials of plain scripts, whose metric stands in what they print: how they end, and that nothing of them is left."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.search.plans import log_of, plain, plan_of, processes_of, wait_until
from training.launch.environment import SECRET
from training.launch.foreign_command import MOST_PRINTED
from training.machine.output import LONGEST_LINE
from training.workloads.search import detail, trial
from training.workloads.search.plan import NAME

ROOT = Path(__file__).resolve().parents[2]
TRAINS = "import sys\nfor epoch in range(9): print('loss', 1 / (1 + epoch))\n"
FOR_EVER = "import itertools, time\nfor epoch in itertools.count(1): print('loss', 1 / epoch); time.sleep(0.05)\n"
FAMILY = """
import itertools, subprocess, sys, time
DAEMON = "import os, signal as s, time; os.setsid(); s.signal(s.SIGTERM, s.SIG_IGN); print('up'); time.sleep(3600)"
child = subprocess.Popen([sys.executable, "-uc", DAEMON], stdout=subprocess.PIPE)
child.stdout.readline()
print("loss", 0.5)
"""
"""A script with a child that has left its session and ignores SIGTERM, as a rank of torchrun may."""
SEARCHES = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # as at a terminal: this test may be a job in the background
from pathlib import Path
from training.workloads.search import plan, trial
print("searches", flush=True)
trial.run_trial(plan.read(Path(sys.argv[1])), 0, {"lr": 0.1}, lambda *_: True)
"""
"""A process that runs a trial."""
IGNORES = """
import signal, sys
from pathlib import Path
from training.workloads.search import plan, trial
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
trial.run_trial(plan.read(Path(sys.argv[1])), 0, {"lr": 0.1}, lambda *_: False)
"""
"""A process that stops a trial, and was started in the background, or by Ray."""


def test_a_trial_that_finishes(tmp_path: Path) -> None:
    """Its reports are what it printed, each with its time; its arguments have the configuration's values."""
    plan = plain(tmp_path, TRAINS + "print(*sys.argv)", "--lr", "{lr}", "--out", "{storage}/x")
    record = trial.run_trial(plan, 3, {"lr": 1e-5})

    assert ("finished", 0, "") == (record.state, record.exit_code, record.why)
    assert [1 / (1 + epoch) for epoch in range(9)] == [value for _, value in record.points]
    assert (9, 1 / 9, 0.0) == (record.epochs, record.metric, record.waited_seconds)
    times = [at for at, _ in record.points]
    assert [0, *times, record.seconds] == sorted([0, *times, record.seconds])
    assert f"--lr 0.00001 --out {plan.trial_folder(3)}/storage/x\n" in log_of(plan, 3)  # not prose: arguments
    assert record == detail.read(plan.trial_folder(3))
    assert {"log.txt", "trial.json"} == {path.name for path in plan.trial_folder(3).iterdir()}


def test_what_ray_puts_before_a_line_is_none_of_what_a_worker_printed(tmp_path: Path) -> None:
    """A pattern that begins at a line's begin finds the metric in all arms."""
    text = "print('(RayTrainWorker pid=7, ip=10.0.0.1) loss 0.5'); print('\\x1b[36m(f pid=8)\\x1b[0m loss 0.25')"
    record = trial.run_trial(plain(tmp_path, text, pattern=r"^loss (\S+)$"), 0, {"lr": 0.1})

    assert ("finished", [0.5, 0.25]) == (record.state, [value for _, value in record.points])


def test_a_trial_that_is_stopped_by_a_signal(tmp_path: Path) -> None:
    """It has trained on meanwhile: its epochs are those that it printed."""
    plan, asked = plain(tmp_path, FOR_EVER), list[tuple[int, float]]()

    def decide(number: int, value: float) -> bool:
        asked.append((number, value))
        return number < 3

    record = trial.run_trial(plan, 0, {"lr": 0.1}, decide)

    assert [(1, 1.0), (2, 0.5), (3, 1 / 3)] == asked
    assert ("stopped", -signal.SIGTERM, "") == (record.state, record.exit_code, record.why)
    assert log_of(plan).count("loss") == record.epochs == len(record.points)
    assert not processes_of(plan)


def test_nobody_is_asked_about_the_last_epoch(tmp_path: Path) -> None:
    """After it, a trial goes on to its end: in every arm, whatever its rule says then."""
    asked: list[int] = []

    def decide(number: int, _: float) -> bool:
        asked.append(number)
        return True

    record = trial.run_trial(plain(tmp_path, TRAINS), 0, {"lr": 0.1}, decide)

    assert [*range(1, 9)] == asked
    assert ("finished", 9) == (record.state, record.epochs)


def test_a_trial_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it started, wherever that is."""
    monkeypatch.setattr(trial, "GRACE_SECONDS", 0.5)
    plan = plain(tmp_path, "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FAMILY + FOR_EVER)
    record = trial.run_trial(plan, 0, {"lr": 0.1}, lambda *_: False)

    assert ("stopped", -signal.SIGKILL) == (record.state, record.exit_code)
    assert record.seconds >= 0.5
    assert not processes_of(plan)


def test_a_trial_that_ends_leaves_nothing(tmp_path: Path) -> None:
    """Not a process of another session that its parent has left behind."""
    plan = plain(tmp_path, FAMILY)
    record = trial.run_trial(plan, 0, {"lr": 0.1})

    assert ("finished", 0.5) == (record.state, record.metric)
    assert not processes_of(plan)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("print('loss 1')\nraise ValueError('too wide')", 1),
        ("import os\nprint('loss 1')\nos._exit(3)", 3),
        ("import os\nprint('loss 1')\nos.kill(os.getpid(), 11)", -11),
        ("print('lost 1')", 0),
        ("print('loss nan')", 0),
    ],
    ids=["raises", "exits hard", "crashes", "without metric", "no number at the end"],
)
def test_a_trial_that_fails(tmp_path: Path, text: str, code: int, wording: Wording) -> None:
    """The record says why, and what it printed is kept."""
    plan = plain(tmp_path, text)
    record = trial.run_trial(plan, 0, {"lr": 0.1})

    assert ("failed", code) == (record.state, record.exit_code)
    assert log_of(plan)
    wording("trials", record.why)


def test_a_command_that_can_t_be_started(tmp_path: Path) -> None:
    """An environment that is gone."""
    plan = plan_of(tmp_path, [str(tmp_path / "absent"), "train.py"], pattern="x")
    record = trial.run_trial(plan, 0, {"lr": 0.1})

    assert "failed" == record.state
    assert str(tmp_path / "absent") in record.why


def test_a_trial_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    """Its log does not fill the disk."""
    plan = plain(tmp_path, "while True: print('x' * 100_000)")
    record = trial.run_trial(plan, 0, {"lr": 0.1})

    assert "failed" == record.state
    assert (plan.trial_folder(0) / detail.LOG).stat().st_size <= MOST_PRINTED
    assert str(MOST_PRINTED // 2**20) in record.why


def test_a_secret_variable_stands_in_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial has it."""
    monkeypatch.setenv(SECRET, json.dumps({"TOKEN": "hunter2"}))
    plan = plain(tmp_path, "import os\nprint('loss', len(os.environ['TOKEN']), os.environ['TOKEN'])")
    record = trial.run_trial(plan, 0, {"lr": 0.1})

    assert 7.0 == record.metric
    assert "loss 7 [secret]\n" == log_of(plan)


def test_a_metric_is_read_before_a_secret_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is hidden in the log is a part of the number."""
    monkeypatch.setenv(SECRET, json.dumps({"PIN": "0.9133"}))
    plan = plain(tmp_path, "print('loss 0.91337')")
    record = trial.run_trial(plan, 0, {"lr": 0.1})

    assert ("finished", 0.91337) == (record.state, record.metric)
    assert "loss [secret]7\n" == log_of(plan)


def test_half_a_number_is_no_metric(tmp_path: Path) -> None:
    """Of a line that is so long that its rest is left out."""
    text = f"print('loss 0.25'); print('x' * ({LONGEST_LINE} - 8) + ' loss 0.912')"
    record = trial.run_trial(plain(tmp_path, text), 0, {"lr": 0.1})

    assert ("finished", 0.25) == (record.state, record.metric)


def test_a_trial_that_failed_before_it_was_stopped_has_failed(tmp_path: Path) -> None:
    """Though nobody knew of it yet: its supervisor is held up meanwhile."""
    ends = "import os, time\nprint('loss 1')\nwhile not os.path.exists('end'): time.sleep(0.01)\nos._exit(3)\n"
    plan = plain(tmp_path, ends)
    running = trial.start(plan, 0, {"lr": 0.1}, decides=True)
    assert running.next_report(LONGEST_SECONDS) is not None
    (script,) = processes_of(plan)
    supervisor = script.parent()
    assert supervisor is not None
    supervisor.suspend()
    (tmp_path / "end").touch()
    assert wait_until(lambda: not processes_of(plan))
    running.answer(goes_on=False)
    supervisor.resume()
    record = running.end()

    assert ("failed", 3) == (record.state, record.exit_code)


def test_a_trial_has_the_signals_of_a_terminal(tmp_path: Path) -> None:
    """Whatever who searches ignores or blocks: else each stop would take until SIGKILL, and arms would differ."""
    text = (
        "import json, signal as s\n"
        "usual = {s.SIGINT: s.default_int_handler, s.SIGTERM: s.SIG_DFL, s.SIGHUP: s.SIG_DFL}\n"
        "print(json.dumps([*(s.getsignal(number) == what for number, what in usual.items()),\n"
        "    not s.pthread_sigmask(s.SIG_BLOCK, ())]), flush=True)\n"
    )
    plan = plain(tmp_path, text + FOR_EVER)
    command = [sys.executable, "-c", IGNORES, str(plan.write())]
    subprocess.run(command, cwd=ROOT, check=True, timeout=LONGEST_SECONDS)
    record = detail.read(plan.trial_folder(0))

    assert [True] * 4 == json.loads(log_of(plan).splitlines()[0])
    assert record is not None
    assert ("stopped", -signal.SIGTERM) == (record.state, record.exit_code)


def test_who_decides_nothing_has_no_socket(tmp_path: Path) -> None:
    """Nor has one that reads what is printed."""
    text = "import os\nprint('loss 1')\nprint('asks', 'TRAINING_OBSERVE_SEARCH' in os.environ)\n"
    logs = []
    for number, (pattern, decides) in enumerate([("", False), ("loss (.*)", True), ("", True)]):
        plan = plain(tmp_path, text, pattern=pattern)
        running = trial.start(plan, number, {"lr": 0.1}, decides=decides)
        while running.next_report():
            pass
        running.end()
        logs.append("True" in log_of(plan, number))

    assert [False, False, True] == logs


def test_a_report_is_waited_for_as_long_as_is_said(tmp_path: Path) -> None:
    """And asked for again; in the end the trial is ended, whatever it does."""
    plan = plain(tmp_path, "import time\nprint('loss 1')\ntime.sleep(3600)")
    running = trial.start(plan, 0, {"lr": 0.1}, decides=True)
    first = running.next_report(LONGEST_SECONDS)
    with pytest.raises(TimeoutError):
        running.next_report(0.1)
    record = running.end()

    assert first is not None
    assert (1, 1.0) == (first.number, first.value)
    assert ("stopped", 1) == (record.state, record.epochs)
    assert record is running.end()
    assert not processes_of(plan)


@contextmanager
def searching(plan_folder: Path, text: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that runs a trial of a script with this text; it has begun to print. It is gone in the end."""
    plan = plain(plan_folder, text)
    plan.write()
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCHES, str(plan_folder / NAME)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    log = plan.trial_folder(0) / detail.LOG
    with process:
        try:
            assert wait_until(lambda: log.exists() and "loss" in log.read_text())
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_search_that_ends_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """A Tune actor that is killed, Ctrl-C: no process of the trial stays, in whatever session, and there is no
    record."""
    plan = plain(tmp_path, FAMILY + FOR_EVER)
    with searching(tmp_path, FAMILY + FOR_EVER) as process:
        before = len(processes_of(plan))
        process.send_signal(number)
        process.communicate(timeout=LONGEST_SECONDS)

    assert 2 == before
    assert wait_until(lambda: not processes_of(plan))
    assert detail.read(plan.trial_folder(0)) is None
    assert wait_until(lambda: not (plan.trial_folder(0) / "storage").exists())


def test_a_search_that_is_killed_with_its_children_leaves_nothing(tmp_path: Path) -> None:
    """Ray kills the children of a worker that it ends: what cleans up is none of them."""
    plan = plain(tmp_path, FAMILY + FOR_EVER)
    with searching(tmp_path, FAMILY + FOR_EVER) as process:
        killed = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
        for each in killed:
            each.kill()
        process.communicate(timeout=LONGEST_SECONDS)

    assert 2 == len(killed)
    assert wait_until(lambda: not processes_of(plan))


def test_a_search_that_is_killed_with_all_that_cleans_up_leaves_no_script(tmp_path: Path) -> None:
    """The system ends it."""
    silent = "import time\nprint('loss 1')\ntime.sleep(3600)"  # one that prints would end by that
    plan = plain(tmp_path, silent)
    with searching(tmp_path, silent) as process:
        (script,) = processes_of(plan)
        for each in [psutil.Process(process.pid), *script.parents()[:2]]:
            each.kill()
        process.communicate(timeout=LONGEST_SECONDS)

    assert wait_until(lambda: not processes_of(plan))


def test_a_rule_that_raises_ends_the_trial(tmp_path: Path) -> None:
    """Before who searches goes on with anything else."""
    plan = plain(tmp_path, FAMILY + FOR_EVER)
    with pytest.raises(ZeroDivisionError):
        trial.run_trial(plan, 0, {"lr": 0.1}, lambda number, _: 1 // (number - 1) > 0)

    assert not processes_of(plan)
    assert detail.read(plan.trial_folder(0)) is None


def test_a_trial_whose_supervisor_is_killed_has_failed(tmp_path: Path) -> None:
    """The system kills the script with it, and its session is looked through."""
    plan = plain(tmp_path, "import subprocess\nsubprocess.Popen(['sleep', '3600'])\n" + FOR_EVER)
    running = trial.start(plan, 0, {"lr": 0.1}, decides=False)
    assert wait_until(lambda: any(one.cmdline()[:1] == ["sleep"] for one in processes_of(plan)))  # not a fork alone
    (script,) = (process for process in processes_of(plan) if "train.py" in process.cmdline())
    parent = script.parent()
    assert parent is not None
    parent.kill()
    ended = running.next_report(LONGEST_SECONDS)
    record = running.end()

    assert ended is None
    assert ("failed", -signal.SIGKILL) == (record.state, record.exit_code)
    assert not processes_of(plan)
