"""What docs/settings.md and Pulumi.yaml say about settings is what the table says."""

import re

import pytest
import yaml

from cli.docs import config_table
from infra.settings.key import CLUSTER, TARGETS
from infra.settings.table import every_key


@pytest.mark.parametrize("name", list(config_table.DOCUMENTS))
def test_documents_agree_with_the_table(name: str) -> None:
    """A changed key is a changed document: `python -m cli.docs.config_table` writes both."""
    text = (config_table.ROOT / name).read_text(encoding="utf-8")

    assert config_table.rendered(name, text) == text


def test_pulumi_yaml_declares_every_key_without_a_type() -> None:
    """A typed key is refused by the engine, without a line that mends it; an unquoted default would be typed."""
    config = yaml.safe_load((config_table.ROOT / "Pulumi.yaml").read_text())["config"]
    declared = {key: its for key, its in config.items() if ":" not in key}

    assert list(declared) == list(every_key())
    assert all(set(its) == {"description", "default"} for its in declared.values())
    assert all(isinstance(its["default"], str) for its in declared.values())


def test_the_page_about_storage_names_the_targets_that_have_it() -> None:
    """In its first table; target ray refuses the key."""
    text = (config_table.ROOT / "docs/storage.md").read_text(encoding="utf-8")
    where = {row.split("|")[2].strip() for row in text.split("\n\n")[2].splitlines()[2:]}

    assert {"`local`", "clusters", "`local`, clusters"} == where
    assert {"local", *CLUSTER} == set(every_key()["storage"].targets)


def test_dynamic_resources_keep_their_default_provider() -> None:
    """Pulumi's default providers are off for clusters, and on for the runs of this machine."""
    config = yaml.safe_load((config_table.ROOT / "Pulumi.yaml").read_text())["config"]

    assert config["pulumi:disable-default-providers"] == ["kubernetes"]


def test_every_key_has_one_row_of_four_cells() -> None:
    """A | in a rule or an example would break the row."""
    rows = [row.replace("\\|", "") for row in config_table.tables().splitlines() if row.startswith("|")]
    keys = [key.name for section in config_table.sections().values() for key in section]

    assert sorted(keys) == sorted(every_key())
    assert len(rows) == len(every_key()) + 2 * len(config_table.sections())
    assert {row.count("|") for row in rows} == {5}


def test_the_targets_of_every_key_are_told() -> None:
    """In its row, or once for its section; a key that says nothing is for every target."""
    told: dict[str, str] = {}
    for section in config_table.tables().split("## ")[1:]:
        usual = re.search(r"^For (.*) only, unless", section, re.MULTILINE)
        for name, row in re.findall(r"^\| `(\w+)` (.*)$", section, re.MULTILINE):
            own = re.search(r"\(([\w, ]+) only\)|\((every target)\)", row)
            told[name] = (own[1] or own[2]) if own else usual[1] if usual else "every target"

    listed = {name: re.findall(r"\w+", targets.replace(" and ", ", ")) for name, targets in told.items()}
    assert {name: list(key.targets) for name, key in every_key().items()} == {
        name: list(TARGETS) if words == ["every", "target"] else words for name, words in listed.items()
    }


def test_only_what_stands_between_the_markers_is_touched() -> None:
    """The rest of the page is written by hand."""
    text = "before\n<!-- config table -->\nold\n<!-- end of config table -->\nafter\n"

    found = config_table.rendered("docs/settings.md", text)

    assert found.startswith("before\n<!-- config table -->\n## Every measurement\n")  # not prose: Markdown
    assert found.endswith("|\n<!-- end of config table -->\nafter\n")  # not prose: Markdown
    assert "\nold\n" not in found


def test_a_document_without_markers_is_refused() -> None:
    """Nothing is appended somewhere."""
    with pytest.raises(ValueError, match="has no lines"):
        config_table.rendered("docs/settings.md", "no table here\n")
