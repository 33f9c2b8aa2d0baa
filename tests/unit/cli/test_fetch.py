"""`rwi report fetch`: a run's files come back from storage, and a run that is not there is told from those that are."""

import errno
import os
import shlex
from pathlib import Path, PurePosixPath

import pytest
from pyarrow import fs

from cli.fetch import fetch as tool
from cli.setup.project import ToolError
from cli.stack import settings as stack_settings
from tests.golden import Wording
from tests.typed import typed
from training.launch.storage.run_storage import PART, Storage

RUNS = ("0a/ray-1-20260101T000000Z-aaaaaa", "0b/ray-1-20260102T000000Z-000000", "0b/ray-w1-1-20260102T000100Z-bbbbbb")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose stack keeps what these runs left."""
    for run in RUNS:
        path = tmp_path / "kept" / "local" / run / "checkpoints" / "epoch-00001" / "weights.npz"
        path.parent.mkdir(parents=True)
        path.write_text(run)
    (tmp_path / "kept" / "local" / RUNS[1] / f"model.keras{PART}").touch()
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    return tmp_path


def fetch(project: Path, *words: str) -> int:
    """`rwi report fetch` for a stack that keeps what the runs left."""
    return typed("report", "fetch", *words, "--set", f"storage={project / 'kept'}")


def test_the_newest_run_of_that_name_comes_back(
    project: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """Whole files alone; that of fewer workers has another name."""

    assert 0 == fetch(project, "ray-1")
    to = project / "runs/local/ray-1-20260102T000000Z-000000/kept"
    assert {tool.MARK, "weights.npz"} == {path.name for path in to.rglob("*") if path.is_file()}
    assert RUNS[1] == (to / "checkpoints/epoch-00001/weights.npz").read_text()
    said = capsys.readouterr().out
    assert f"ray-1-20260102T000000Z-000000: {to}\n" in said
    assert "ray-1-20260101T000000Z-aaaaaa" in said
    wording("fetch", said)  # in a shared bucket it may be somebody else's


def test_of_a_bucket_that_others_use_one_s_own_run_comes(
    project: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """A colleague's is newer; what was fetched of it before does not make it one's own."""
    (project / "runs/local/ray-1-20260101T000000Z-aaaaaa").mkdir(parents=True)
    (project / "runs/local/ray-1-20260101T000000Z-aaaaaa/result.json").touch()
    fetch(project, "ray-1-20260102T000000Z-000000")
    capsys.readouterr()

    fetch(project, "ray-1")

    said = capsys.readouterr().out
    assert f"ray-1-20260101T000000Z-aaaaaa: {project}" in said
    assert "ray-1-20260102T000000Z-000000" in said
    wording("fetch", said)


@pytest.mark.parametrize("newest", [0, 1])
def test_of_jobs_of_a_cluster_the_one_that_wrote_last_is_the_newest(newest: int) -> None:
    """Their names end with what Pulumi drew: an order by them is none."""
    jobs = ("0a/ray-1-0f3c9a11", "0b/ray-1-e7712b40")
    names = {f"{job}/{file}": 10 + 5 * (number == newest) - age
             for number, job in enumerate(jobs) for age, file in enumerate(("logs/driver.log", "a"))}  # fmt: skip

    assert jobs[newest] == tool.chosen(names, "ray-1", "s3://b")


def test_names_in_storage_are_no_words_of_a_shell(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who writes there chooses them, and the line is there to be pasted."""
    other = "ray-1-$(id)-20250101T000000Z-a"
    (project / "kept/local/0c" / other).mkdir(parents=True)
    (project / "kept/local/0c" / other / "a").touch()

    fetch(project, "ray-1")

    assert other in capsys.readouterr().out


def test_an_object_whose_name_no_file_can_have_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not keep others from coming back, and is named; a full disk ends it."""
    system = fs._MockFileSystem()
    for name in ("a", "m" * 256, "z/a"):
        system.create_dir(str(PurePosixPath("b/run", name).parent), recursive=True)
        with system.open_output_stream(f"b/run/{name}") as stream:
            stream.write(name[:1].encode())

    files, left = tool.fetch(Storage(system, "b/run"), tmp_path / "to")

    assert [b"a", b"z"] == [file.read_bytes() for file in files]
    assert ["m" * 256] == left

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Storage, "fetch", full)
    with pytest.raises(OSError, match="no space left"):
        tool.fetch(Storage(system, "b/run"), tmp_path / "full")


def test_a_run_by_its_whole_name_goes_where_it_is_wanted(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--to names a folder of one's own."""
    fetch(project, "ray-1-20260101T000000Z-aaaaaa", "--to", "mine")

    assert RUNS[0] == (project / "mine/checkpoints/epoch-00001/weights.npz").read_text()


def test_files_of_two_runs_are_not_mixed(project: Path, wording: Wording) -> None:
    """The line that is printed fetches the other one; the same may be fetched again."""
    for run in ("ray-1-20260101T000000Z-aaaaaa", "ray-1-20260101T000000Z-aaaaaa"):
        fetch(project, run, "--to", "mine")
    with pytest.raises(ToolError, match=r"/mine .*ray-1-20260101T") as refused:
        fetch(project, "ray-1", "--to", "mine")

    wording("fetch", str(refused.value))
    fetch(project, *shlex.split(str(refused.value).partition("./rwi report fetch ")[2]))
    assert RUNS[0] == (project / "mine/checkpoints/epoch-00001/weights.npz").read_text()
    fetched = project / "mine/ray-1-20260102T000000Z-000000/checkpoints/epoch-00001/weights.npz"
    assert RUNS[1] == fetched.read_text()


def test_nothing_of_one_s_own_is_overwritten(project: Path, wording: Wording) -> None:
    """A folder with anything in it that was not fetched is refused."""
    (project / "my own").mkdir()
    (project / "my own/model.keras").write_text("mine")

    with pytest.raises(ToolError, match=r"/my own ") as refused:
        fetch(project, "ray-1", "--to", "my own")
    wording("fetch", str(refused.value))
    assert ["model.keras"] == [path.name for path in (project / "my own").iterdir()]


def test_a_link_in_the_folder_leads_nowhere(project: Path, wording: Wording) -> None:
    """What a run kept is written below the folder alone."""
    to = project / "runs/local/ray-1-20260102T000000Z-000000/kept"
    tool.begin(to, RUNS[1])
    (project / "elsewhere").mkdir()
    (to / "checkpoints").symlink_to(project / "elsewhere")

    with pytest.raises(ToolError, match=r"epoch-00001/weights.npz .*elsewhere(?s:.*)--to") as refused:
        fetch(project, "ray-1")
    wording("fetch", str(refused.value))

    assert [] == list((project / "elsewhere").iterdir())


@pytest.mark.parametrize("wanted", [[], ["wide-1"]], ids=["", "wide-1"])
def test_a_run_that_is_not_there_names_those_that_are(project: Path, wanted: list[str], wording: Wording) -> None:
    """And without a name they are listed."""
    with pytest.raises(ToolError, match=r"\n  ray-1-20260101T000000Z-aaaaaa  1 ") as refused:
        fetch(project, *wanted)
    wording("fetch", str(refused.value))
    assert not (project / "runs").exists()


def test_a_stack_without_storage_says_how_it_gets_some(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It kept nothing."""
    assert list(Storage.at(str(project / "kept")).names())

    with pytest.raises(ToolError, match=r"\./rwi set storage=kept"):
        typed("report", "fetch", "ray-1")


def test_a_server_that_pods_alone_know_is_told_with_the_lines_that_bring_it_here(
    monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Its namespace and port are those of the endpoint; what the lines name is then asked."""
    given = {"storage": "s3://bucket/prefix", "storageEndpoint": "http://s3.keeper.svc:7070"}
    with pytest.raises(ToolError) as refused:
        stack_settings.kept_at(stack_settings.load("local", given))
    said = str(refused.value)
    assert "kubectl --namespace keeper port-forward service/s3 9000:7070" in said
    wording("fetch", said)

    brought = given | dict([said.partition("--set ")[2].split()[0].split("=", 1)])
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "")
    assert "s3://bucket/prefix/local" == stack_settings.kept_at(stack_settings.load("local", brought))
    assert "http://127.0.0.1:9000" == os.environ["AWS_ENDPOINT_URL_S3"]
