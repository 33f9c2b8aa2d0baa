"""Golden files of wording: what users read, whole and in one file a surface, so that a person can review it.

A test calls `wording("settings", text)`: the text has to equal the section of that test in `tests/golden/settings.txt`.
`pytest --update-golden` rewrites the sections of the tests that pass, in several processes, too.
A section that no test asks for is refused; it is dropped where all tests of its file run with that flag.
"""

import difflib
import re
import shlex
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path

import pytest

FLAG = "--update-golden"
Sections = dict[tuple[str, str], str]
"""The texts of one surface, by the test's node id and a label."""
_ABOUT = f"""\
What a user reads, by the test that makes it. Not written by hand: change the program,
then run its tests with {FLAG} (CONTRIBUTING.md, Tests)."""


def read(content: str) -> Sections:
    """The sections of a golden file."""
    lines: dict[tuple[str, str], list[str]] = {}
    file, heads = "", True  # several headings may share a text
    section: list[str] = []
    for line in content.splitlines():
        if line.startswith("== "):
            file = line[3:]
        elif line.startswith("-- "):
            name, _, label = line[3:].partition(" · ")
            section = section if heads else []
            heads = True
            lines[f"{file}::{name}", label] = section
        else:
            heads = False
            section.append(line.removeprefix("    "))
    return {key: "\n".join(section).strip("\n") for key, section in lines.items()}


def write(sections: Sections) -> str:
    """A golden file: a heading for each test file, one for each test, and below it the text, indented by four.

    Tests beside each other that say the same share it.
    """
    lines, last_file, last_text = [_ABOUT], "", ""
    # The sort is stable: the texts of one test stay in the order of its calls.
    for (node, label), text in sorted(sections.items(), key=lambda item: item[0][0].split("::", 1)):
        file, name = node.split("::", 1)
        if file != last_file:
            lines += [f"\n== {file}", ""]
        elif text == last_text:
            lines = lines[: -len(text.splitlines()) - 1]
        last_file, last_text = file, text
        lines.append(f"-- {name} · {label}" if label else f"-- {name}")
        lines += [f"    {line}" if line else "" for line in text.splitlines()]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm="")
    return "\n".join(f"  {line}" for line in list(lines)[2:] if not line.startswith("@@"))


def _command(name: str) -> str:
    return f".venv/bin/pytest {FLAG} {shlex.quote(name)}"


class Golden:
    """The plugin of pytest: compares texts with the golden files of a folder, or rewrites these."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._config = config
        self._folder = folder
        self._updates = bool(config.getoption(FLAG))
        self._stored = {file.stem: read(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.txt"))}
        self._nodes = {surface: {node for node, _ in sections} for surface, sections in self._stored.items()}
        self._asked: dict[tuple[str, str, str], str] = {}  # of the running test: by surface, node id and label
        self._passed: set[str] = set()  # node ids, as are the next two
        self._collected: set[str] = set()
        self._in_part: set[str] = set()  # files of which some tests were not selected
        self._texts: list[tuple[str, str, str, str]] = []  # of the tests that passed

    def check(self, node: str, surface: str, text: str, label: str) -> None:
        """Compare a text of that test with its section."""
        if not re.fullmatch("[a-z][a-z-]*", surface):
            raise ValueError(f"{surface!r} is no name of a golden file")
        if not text.strip():
            pytest.fail("a user reads nothing here: no golden file holds an empty text", pytrace=False)
        if (surface, node, label) in self._asked:
            number = sum(key[:2] == (surface, node) for key in self._asked) + 1
            label = f"{label} ({number})".strip()
        after = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
        self._asked[surface, node, label] = after
        before = self._stored.get(surface, {}).get((node, label))
        if before == after or self._updates:
            return
        what = "is not in" if before is None else "differs from"
        pytest.fail(
            f"what a user reads {what} tests/golden/{surface}.txt:\n\n{_difference(before or '', after)}\n\n"
            f"If it reads well, rewrite the file: {_command(node)}",
            pytrace=False,
        )

    def _is_stale(self, node: str) -> bool:
        """Whether there is no test of that name any longer, as far as this session knows."""
        file = node.split("::", maxsplit=1)[0]
        if not (self._config.rootpath / file).is_file():
            return True
        all_selected = file not in self._in_part and any(name.startswith(f"{file}::") for name in self._collected)
        return all_selected and node not in self._collected

    def _check_stale(self, node: str) -> None:
        file = node.split("::", maxsplit=1)[0]
        for surface, sections in self._stored.items():
            uses = any(key[:2] == (surface, node) for key in self._asked)
            if not uses and node not in self._nodes[surface]:  # as most tests, of which there are thousands
                continue
            stale = [
                " · ".join(filter(None, (name, label)))
                for name, label in sections
                if (name == node and (surface, name, label) not in self._asked)
                or (uses and name.startswith(f"{file}::") and self._is_stale(name))
            ]
            if stale:
                names = "\n".join(f"  {name}" for name in stale)
                pytest.fail(
                    f"no test asks for these sections of tests/golden/{surface}.txt any longer:\n{names}\n"
                    f"Drop them: {_command(file)}",
                    pytrace=False,
                )

    @pytest.hookimpl(optionalhook=True)
    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Remember which files run in part."""
        self._in_part |= {item.nodeid.split("::")[0] for item in items}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember which tests there are."""
        self._collected = {item.nodeid for item in session.items}
        root = self._config.rootpath.resolve()
        selected = (Path(argument.split("::")[0]).resolve() for argument in self._config.args if "::" in argument)
        self._in_part |= {file.relative_to(root).as_posix() for file in selected if file.is_relative_to(root)}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Keep the texts of a test that passes, or refuse the sections that it has not asked for."""
        self._asked = {}
        result = yield
        if self._updates:
            self._passed.add(item.nodeid)
            self._texts += [(*key, text) for key, text in self._asked.items()]
        else:
            self._check_stale(item.nodeid)
        return result

    def pytest_sessionfinish(self) -> None:
        """Hand over what this process has seen, where it is one of several."""
        if hasattr(self._config, "workeroutput"):
            seen = (self._texts, *map(sorted, (self._passed, self._collected, self._in_part)))
            self._config.workeroutput["golden"] = seen

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take over what one of several processes has seen."""
        texts, passed, collected, in_part = getattr(node, "workeroutput", {}).get("golden", ([], [], [], []))
        self._texts += texts
        self._passed |= set(passed)
        self._collected |= set(collected)
        self._in_part |= set(in_part)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Rewrite the files, and name those that changed."""
        if not self._updates or hasattr(self._config, "workeroutput"):
            return
        for surface in sorted({surface for surface, *_ in self._texts} | set(self._stored)):
            stored = self._stored.get(surface, {})
            sections = {
                key: text for key, text in stored.items() if key[0] not in self._passed and not self._is_stale(key[0])
            }
            sections |= {(node, label): text for name, node, label, text in self._texts if name == surface}
            if sections == stored:
                continue
            file = self._folder / f"{surface}.txt"
            if sections:
                self._folder.mkdir(exist_ok=True)
                file.write_text(write(sections), encoding="utf-8")
            else:
                file.unlink()
            terminalreporter.write_line(f"rewritten: tests/golden/{file.name}")


class Wording:
    """What the fixture `wording` gives a test: compares what a user reads with the golden file of a surface."""

    def __init__(self, golden: Golden, node: str, names: Mapping[str, str]) -> None:
        self._golden = golden
        self._node = node
        self._names = names  # what stands for a path that differs from machine to machine

    def __call__(self, surface: str, text: str, label: str = "") -> None:
        """Fail where the text is not the one of this test in that file; a label tells the texts of one test apart."""
        for path, name in self._names.items():
            text = text.replace(path, name)
        self._golden.check(self._node, surface, text, label)
