"""Text of others on a terminal says something, and does nothing."""

import io
import re
from pathlib import Path

import pytest

from cli.setup import project
from infra.places.local import run as local_run
from report import terminal
from tests.unit.fake_ray import TOKEN, FakeRay, serving
from training.contract import progress
from training.contract.printable import printable
from training.launch.ray import other_jobs, submit
from training.launch.ray.jobs_api import JobsApi, SubmitError

EVIL = "a\x1b]52;c;cm0gLXJm\x07b\x1b]0;title\x07\x1b[2J\x9b2J\x08\u202ec\r\ud83d"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_what_a_terminal_obeys_is_replaced_and_all_else_stays() -> None:
    """Both functions do the same, with every character of the first plane."""
    every = "".join(map(chr, range(0x10000)))
    wanted = OBEYED.sub("\ufffd", every.replace("\r", "\n"))
    for shown in (printable(every), project.printable(every)):
        characters = zip(every, wanted, shown, strict=True)
        assert [] == [f"U+{ord(character):04X}" for character, want, got in characters if want != got]


@pytest.mark.parametrize("function", [printable, project.printable])
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[36m(worker)\x1b[0m 1\r\n2\r3\t4\n", "(worker) 1\n2\n3\t4\n"),
        ("\x1b[38;5;1mred", "red"),
        ("\x1b\x1b[0m[2J", "\ufffd[2J"),
        ("日本語 é × …", "日本語 é × …"),
    ],
)
def test_colours_go_and_lines_stay(function: object, given: str, shown: str) -> None:
    """What is left where a colour was taken out does nothing either."""
    assert callable(function)
    assert shown == function(given)


def test_every_way_to_the_terminal_is_such(capsys: pytest.CaptureFixture[str]) -> None:
    """Logs of jobs, names of jobs and objects, errors, a line of progress."""
    evil = EVIL.replace("\ud83d", "")
    ray = FakeRay({"job": ["SUCCEEDED"]}, logs={"job": evil})
    with serving(ray) as address:
        submit.follow(JobsApi(address, TOKEN), "job")
    terminal.write(evil)
    project.say(evil)
    job = {"submission_id": evil, "entrypoint": evil, "status": "RUNNING"}
    driver = {"job_id": evil, "status": "RUNNING", "driver_info": {"pid": evil, "node_ip_address": evil}}
    measured = {**job, "metadata": other_jobs.mark("another")}
    print(other_jobs.refusal([job, driver, measured], "ci"))
    print(progress.describe({"event": "line", "text": evil}))

    for text in capsys.readouterr():
        assert "a" in text
        assert not OBEYED.search(text)


def test_a_name_is_one_line_and_one_word() -> None:
    """Somebody's job can't look like a line that is to be typed, nor end in one."""
    job = {"submission_id": "x\n  rm -r runs; $(id)", "entrypoint": "a\nb", "status": "RUNNING"}

    assert "./rwi jobs stop 'x   rm -r runs; $(id)' --stack ci" == other_jobs.end_line(job, "ci")
    assert 2 == len(other_jobs.refusal([job], "ci").splitlines())


def test_why_a_job_failed_is_such() -> None:
    """Ray's message has what the job wrote."""
    with serving(FakeRay({"job": ["FAILED"]})) as address:
        api = JobsApi(address, TOKEN)
        api.job = lambda _: {"status": "FAILED", "message": f"it broke {EVIL}"}  # type: ignore[method-assign, assignment]
        with pytest.raises(SubmitError) as failed:
            submit.follow(api, "job")

    assert not OBEYED.search(str(failed.value))


def test_the_end_of_a_run_s_log_is_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulumi prints it as it is."""
    monkeypatch.setattr(local_run, "PROJECT", tmp_path)
    (tmp_path / "log.txt").write_text(EVIL.replace("\ud83d", ""), encoding="utf-8")

    assert not OBEYED.search(local_run._failure("ray-1", "it failed", tmp_path))


def test_a_terminal_that_lacks_characters_gets_a_mark() -> None:
    """Of those that were replaced, too."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    terminal.write("a\x1b[2J", out)
    out.flush()

    assert b"a?[2J\n" == out.buffer.getvalue()
