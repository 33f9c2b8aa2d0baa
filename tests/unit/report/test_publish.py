"""Publishing: a folder appears whole, once, and says where its runs are."""

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from compare.comparison import compare
from compare.schema import Comparison
from report import publish as publishing
from report.__main__ import main
from report.errors import PublishError
from report.publish import publish
from tests.golden import Wording
from tests.unit.results import make_context, make_recipe, make_result, make_run, make_runs

WHOLE = compare(make_runs(), make_context())


@pytest.fixture(autouse=True)
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing a page takes a second, and is tested elsewhere."""
    monkeypatch.setattr("report.html.render", lambda comparison, stack, project: f"page of {stack}")


def listing(folder: Path) -> dict[str, str]:
    """Every file below a folder with what it holds; links with their target."""
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def links(folder: Path) -> dict[str, dict[str, Any]]:
    """The run links of a published folder by name."""
    return {link["name"]: link for link in json.loads((folder / "runs.json").read_text())}


def test_a_result_is_a_folder_with_time_and_recipe_in_its_name(tmp_path: Path) -> None:
    """UTC start of the newest run, and the recipe's digest; what was compared, readable by people and programs.

    `latest` is a relative link: the results can be moved or mounted elsewhere.
    """
    folder = publish(WHOLE, "local", tmp_path)
    latest = tmp_path / "results" / "local" / "latest"

    assert folder == tmp_path / "results" / "local" / f"20250301T120320Z-{make_recipe().digest()}"
    assert {path.name for path in folder.iterdir()} == {"comparison.json", "report.html", "report.txt", "runs.json"}
    assert (folder / "report.html").read_text() == "page of local"
    assert Comparison.from_json((folder / "comparison.json").read_text()) == WHOLE
    assert WHOLE.verdict in " ".join((folder / "report.txt").read_text().split())
    assert latest.readlink() == Path(folder.name)
    assert (latest / "comparison.json").is_file()


def test_folder_names_are_utc(tmp_path: Path) -> None:
    """A run stamped in another zone sorts where it belongs."""
    text = WHOLE.to_json().replace("2025-03-01T12:03:20+00:00", "2025-03-01T14:03:20+02:00")

    assert publish(Comparison.from_json(text), "local", tmp_path).name.startswith("20250301T120320Z-")


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    """The same comparison is one result, however often it is published, and at whatever hour."""
    first = publish(WHOLE, "local", tmp_path)
    before = listing(tmp_path)

    assert publish(WHOLE, "local", tmp_path) == first
    assert listing(tmp_path) == before


def test_a_new_measurement_gets_its_own_folder(tmp_path: Path) -> None:
    """The older result stays, and `latest` moves on."""
    recipe = make_recipe(epochs=4)
    first = publish(WHOLE, "local", tmp_path)
    second = publish(compare(make_runs(recipe), make_context(recipe)), "local", tmp_path)

    assert first != second
    assert (first / "comparison.json").is_file()
    assert (tmp_path / "results/local/latest").readlink() == Path(second.name)


def test_the_same_runs_compared_otherwise_lose_nothing(tmp_path: Path) -> None:
    """A verdict that changed with the program stands beside the older one, and each is found again."""
    other = compare(make_runs(), make_context(oversubscription="2 on 1"))
    first, second = publish(WHOLE, "local", tmp_path), publish(other, "local", tmp_path)

    assert second.name == f"{first.name}.2"
    assert publish(other, "local", tmp_path) == second
    assert publish(WHOLE, "local", tmp_path).name == f"{first.name}.3"
    assert Comparison.from_json((first / "comparison.json").read_text()) == WHOLE


def test_links_lead_from_the_folder_to_the_runs(tmp_path: Path) -> None:
    """Relative paths, checked against the hash of what was compared. Publishing again says what is missing since, and
    changes nothing else."""
    result = tmp_path / "runs/test/ray-1/result.json"
    make_result("ray").write(result)
    sha256 = hashlib.sha256(result.read_bytes()).hexdigest()
    comparison = Comparison.from_json(WHOLE.to_json().replace(make_run("ray").sha256, sha256))
    (tmp_path / "runs/test/ray-2").mkdir()
    (tmp_path / "runs/test/ray-2/result.json").write_text("other")
    folder = publish(comparison, "local", tmp_path)
    found, before = links(folder), listing(folder)
    result.unlink()
    publish(comparison, "local", tmp_path)

    states = {name: found[name]["state"] for name in ("ray-1", "ray-2", "ray-3")}
    assert {"ray-1": "present", "ray-2": "changed", "ray-3": "missing"} == states
    assert found["ray-1"]["path"] == "../../../runs/test/ray-1/result.json"
    assert "missing" == links(folder)["ray-1"]["state"]
    assert {name for name, text in before.items() if listing(folder)[name] != text} == {"runs.json"}


@pytest.mark.parametrize("stack", ["", "..", ".", "a/b", "-x", "/etc", "a b"])
def test_a_name_that_is_no_folder_is_refused(tmp_path: Path, stack: str) -> None:
    """Nothing is ever written outside results/."""
    with pytest.raises(PublishError, match="no stack name"):
        publish(WHOLE, stack, tmp_path)
    assert listing(tmp_path) == {}


def test_a_comparison_without_runs_is_refused(tmp_path: Path) -> None:
    """There is nothing to link to and no time to name the folder by."""
    with pytest.raises(PublishError, match="no runs"):
        publish(compare([], make_context()), "local", tmp_path)
    assert listing(tmp_path) == {}


def test_a_full_disk_leaves_older_results_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what failed, where the comparison still is, and what to type; no half folder stays."""
    publish(WHOLE, "local", tmp_path)
    before = listing(tmp_path)
    recipe = make_recipe(epochs=4)

    def full(path: Path, text: str) -> None:
        if path.name == "report.txt":
            raise OSError(28, "No space left on device", str(path))
        path.write_text(text)

    monkeypatch.setattr(publishing, "write_whole", full)
    with pytest.raises(PublishError, match=r"report\.txt.*No space.*comparison --show-secrets.*./rwi report open"):
        publish(compare(make_runs(recipe), make_context(recipe)), "local", tmp_path)

    assert listing(tmp_path) == before


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A message and not a traceback, also where results is no folder at all."""
    (tmp_path / "results").write_text("")

    with pytest.raises(PublishError, match="results"):
        publish(WHOLE, "local", tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_said(tmp_path: Path) -> None:
    """Permission denied."""
    (tmp_path / "results").mkdir(mode=0o500)

    with pytest.raises(PublishError, match="Permission denied"):
        publish(WHOLE, "local", tmp_path)


def test_command_prints_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stdout: the folder."""
    monkeypatch.setattr("sys.stdin", io.StringIO(WHOLE.to_json()))

    status = main(["publish", "--stack", "local", "--project", str(tmp_path)])

    assert status == 0
    assert capsys.readouterr().out == f"{tmp_path}/results/local/20250301T120320Z-{make_recipe().digest()}\n"


def test_command_fails_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """What is wrong goes to stderr and the status is 1."""
    monkeypatch.setattr("sys.stdin", io.StringIO(WHOLE.to_json()))

    status = main(["publish", "--stack", "a/b", "--project", str(tmp_path)])

    assert status == 1
    said = capsys.readouterr().err
    assert said.startswith("report: stack 'a/b'")
    assert said.endswith("`./rwi up --stack minikube`\n")
    wording("report", said)
