"""Event files hold what the histories hold, and what opens them finds the right result."""

import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event  # type: ignore[import-untyped]  # it ships no types
from tensorboardX.record_writer import masked_crc32c  # type: ignore[import-untyped]

from cli.follow import tensorboard
from cli.follow.tensorboard import write_event_files
from cli.setup import bootstrap
from compare.comparison import compare
from report import show
from report.errors import ShowError
from report.plots import ShownRun
from report.publish import publish
from tests.unit.results import RUN, changed, make_context, make_result, written_run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one published measurement of two repeats."""
    monkeypatch.setattr("report.html.render", lambda comparison, stack, project: "the page")
    runs = [written_run(tmp_path, make_result(arm, repeat), repeat) for repeat in (1, 2) for arm in RUN]
    publish(compare(runs, make_context(repeats=2)), "local", tmp_path)
    return tmp_path


def events(folder: Path) -> list[Event]:
    """The events in a folder's event file, as TFRecords with their checksums checked."""
    (file,) = folder.glob("events.out.tfevents.*")
    data, found = file.read_bytes(), []
    while data:
        length = int.from_bytes(data[:8], "little")
        assert masked_crc32c(data[12 : 12 + length]) == int.from_bytes(data[12 + length : 16 + length], "little")
        found.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return found


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by tag."""
    found = defaultdict(list)
    for event in events(folder):
        for value in event.summary.value:
            if value.HasField("simple_value"):
                found[value.tag].append((event.step, round(value.simple_value, 4)))
    return found


def test_every_run_has_its_history_in_event_files(project: Path) -> None:
    """One folder a run; losses, accuracies, rates by epoch; the test's at the end. Wall times are those of the run, so
    that TensorBoard's relative axis shows training seconds: 20 steps an epoch of 0.053 s."""
    folder = tensorboard.tensorboard_folder(project, "local", "latest")

    assert {f"{arm}-{repeat}" for arm in RUN for repeat in (1, 2)} == {path.name for path in folder.iterdir()}
    found = scalars(folder / "ray-1")
    assert [(1, 1.2), (2, 0.6), (3, 0.4)] == found["loss/training"]
    assert [(1, 0.7), (2, 0.85), (3, 0.9)] == found["accuracy/validation"]
    assert [(3, 0.973)] == found["accuracy/test"]
    assert 3 == len(found["speed/images_per_second"])
    assert [(3, 12.0)] == found["seconds/startup"]
    times = [event.wall_time for event in events(folder / "ray-1") if event.summary.value]
    assert 20 * 0.053 == pytest.approx(sorted(set(times))[1] - times[0], abs=0.001)


def test_an_epoch_that_was_all_warm_up_has_no_rate(tmp_path: Path) -> None:
    """Not 0, which would be a line on the floor."""
    result = make_result()
    warm = [replace(epoch, timed_steps=0, timed_images=0, train_seconds=0.0) for epoch in result.detail.history]
    write_event_files([ShownRun("ray-1", 1, changed(result, history=warm))], tmp_path)

    assert "speed/images_per_second" not in scalars(tmp_path / "ray-1")


def test_writing_again_replaces_and_runs_that_are_gone_are_said(project: Path) -> None:
    """Two files of one run would be drawn as one zigzag; a result without its runs has no histories."""
    folder = tensorboard.tensorboard_folder(project, "local", "latest")
    (folder / "ray-1/events.out.tfevents.1.host").touch()
    tensorboard.tensorboard_folder(project, "local", "latest")
    assert 1 == len(list((folder / "ray-1").iterdir()))

    for path in (project / "runs").rglob("result.json"):
        path.unlink()
    with pytest.raises(ShowError, match="runs/"):
        tensorboard.tensorboard_folder(project, "local", "latest")


def test_print_gives_the_folder_and_the_page(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --print nothing is started or opened: one path on stdout."""
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail(f"opened {url}"))
    monkeypatch.setattr(tensorboard, "ROOT", project)
    monkeypatch.setattr(show, "PROJECT", project)

    assert 0 == tensorboard.show("local", "latest", [], path_only=True)
    assert 0 == show.open_page("local", "latest", path_only=True)
    board, page = capsys.readouterr().out.splitlines()
    assert Path(board).is_dir()
    assert "the page" == Path(page).read_text()


def test_the_page_is_opened_or_its_path_printed(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without a browser still says where the report is."""
    opened: list[str] = []
    monkeypatch.setattr(show, "PROJECT", project)

    def browser(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", browser)
    show.open_page("local", "1", path_only=False)
    assert (1, "") == (len(opened), capsys.readouterr().out)
    assert opened[0].startswith("file:///")

    monkeypatch.setattr("webbrowser.open", lambda url: False)
    show.open_page("local", "1", path_only=False)
    assert "report.html" in capsys.readouterr().out


def test_tensorboard_is_started_on_the_folder(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program beside this Python, else the one on PATH, with what the user adds; a missing one is installed."""
    program = tmp_path / "bin/tensorboard"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    tried: list[str] = []
    monkeypatch.setattr(bootstrap, "ensure", tried.append)
    with pytest.raises(ShowError, match="RWI_SETUP"):
        tensorboard.start_tensorboard(project, [])

    program.write_text(f'#!/bin/sh\nprintf "%s " "$@" > {tmp_path}/asked\nexit 3\n')
    program.chmod(0o700)
    assert 3 == tensorboard.start_tensorboard(project, ["--port", "1"])
    assert ["tensorboard"] == tried
    assert ["--logdir", str(project), "--port", "1"] == (tmp_path / "asked").read_text().split()


def test_history_and_watch_need_neither_matplotlib_nor_tensorflow() -> None:
    """What is looked at often starts at once."""
    code = (
        "import sys, report.__main__, report.show, cli.follow.watch, cli.follow.tensorboard\n"
        "print([name for name in ('tensorflow', 'ray', 'pulumi') if name in sys.modules])\n"
        "print('matplotlib' in sys.modules)"
    )
    light = code.replace(", cli.follow.tensorboard", "")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    shown = [
        subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True).stdout
        for text in (code, light)
    ]

    assert ["[]\nTrue\n", "[]\nFalse\n"] == shown
