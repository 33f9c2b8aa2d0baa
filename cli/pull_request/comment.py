"""Comments on a pull request as Markdown: the difference of previews, and of measurements. It posts nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cli.pull_request.preview import Difference, Preview, difference
from compare.schema import Comparison
from report import figures
from report.change import UNCHANGED, Change, changes, how_decided, made_differently, show_difference
from training.contract.arms import BASELINE

LIMIT_BYTES = 65_000
"""Most bytes of a comment. GitHub refuses more than 65,536 characters, each of which has a byte or more."""

PREVIEW_MARKER = "<!-- ray-worth-it: preview -->"
MEASURE_MARKER = "<!-- ray-worth-it: measure -->"
_CUT = "  … and more"
_MORE = "The whole difference is in the workflow run's artifacts."


def preview_comment(base: Mapping[str, Preview], head: Mapping[str, Preview], limit_bytes: int = LIMIT_BYTES) -> str:
    """Return the comment on what the head changes in each stack. Stacks that differ are shown in full, as far as there
    is room; equal stacks are only named, above them."""
    stacks = [*head, *(stack for stack in base if stack not in head)]
    sections = {stack: _stack_section(base.get(stack), head.get(stack)) for stack in stacks}
    quiet = [stack for stack, (_, blocks) in sections.items() if not blocks]
    lines = [PREVIEW_MARKER, "## What this changes in the stacks", "", _INTRODUCTION, ""]
    if quiet:
        lines += [f"- **{_name(stack)}**: {sections[stack][0]}" for stack in quiet] + [""]
    loud = {stack: section for stack, section in sections.items() if section[1]}
    return _fill(lines, loud, limit_bytes)


_INTRODUCTION = "Previews of base and head against an empty state, compared; no cluster and no state were touched."


def _stack_section(base: Preview | None, head: Preview | None) -> tuple[str, list[list[str]]]:
    """Return a line that says what changed in a stack, and a list of diff lines for each resource."""
    if head is None:
        return "the head has no such stack", []
    if head.error:
        if base and base.error == head.error:  # an example whose environment is not on this machine, for one
            return f"no preview, as in the base: {safe(_why(head.error))}", []
        also = " (as that of the base)" if base and base.error else ""
        return f"the preview of the head fails{also}", [["! " + line for line in head.error.splitlines()]]
    if base is None or base.error:
        why = "the preview of the base fails" if base else "the base has no such stack"
        return f"{why}; the head makes {len(head.resources)} resources", _blocks(difference(Preview({}), head))
    changed = difference(base, head)
    return _counts(changed, len(head.resources)), _blocks(changed)


def _why(error: str) -> str:
    """Return the reason in an error, that is, its line after `why:`, or its first line."""
    lines = [line.strip() for line in error.splitlines()]
    return next((line.removeprefix("why:").strip() for line in lines if line.startswith("why:")), lines[0])


def _counts(changed: Difference, resources: int) -> str:
    counts = {"added": changed.added, "removed": changed.removed, "changed": changed.changed}
    counted = [f"{len(of)} {what}" for what, of in counts.items() if of]
    return f"{', '.join(counted)}, of {resources} resources" if counted else f"no difference in {resources} resources"


def _blocks(delta: Difference) -> list[list[str]]:
    """Return the diff lines of each resource: changed ones, new ones, and of removed ones the names alone."""
    changed = [[f"  {name}", *_indented(lines)] for name, lines in delta.changed.items()]
    added = [[f"+ {name} (new)", *_indented(lines)] for name, lines in delta.added.items()]
    return changed + added + [[f"- {name} (gone)"] for name in delta.removed]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"{line[0]}   {line[2:]}" for line in lines]


def _fill(lines: list[str], sections: Mapping[str, tuple[str, list[list[str]]]], limit_bytes: int) -> str:
    """Return the lines, and each stack's section with as many resources as fit into its share of the bytes left."""
    frames = {stack: _details(stack, summary, [], len(blocks)) for stack, (summary, blocks) in sections.items()}
    room = limit_bytes - len("\n".join([*lines, *frames.values(), ""]).encode()) - 1
    parts = []
    for left, (stack, (summary, blocks)) in zip(range(len(sections), 0, -1), sections.items(), strict=True):
        fences = 2 * len(fence(_text(blocks))) + len("diff\n\n\n\n")
        shown, used = _that_fit(blocks, room // left - fences)
        used += fences
        room -= used
        parts.append(_details(stack, summary, shown, len(blocks) - len(shown)))
    return "\n".join([*lines, *parts]) + "\n"


def _that_fit(blocks: Sequence[list[str]], room: int) -> tuple[list[list[str]], int]:
    """Return the first resources' diff lines that fit into `room` bytes, the last perhaps cut, and their size."""
    shown: list[list[str]] = []
    used = 0
    for block in blocks:
        shown.append([])
        for line in block:
            used += len(line.encode()) + 1
            if used > room - len(_CUT):
                shown[-1].append(_CUT)
                return [block for block in shown if block != [_CUT]], used
            shown[-1].append(line)
    return shown, used


def _details(stack: str, summary: str, blocks: Sequence[list[str]], left_out: int) -> str:
    text, ends = _text(blocks), fence(_text(blocks))
    diff = f"{ends}diff\n{text}\n{ends}\n\n" if blocks else ""
    more = f"{left_out} more not shown: a comment has room for so much. {_MORE}\n\n" if left_out else ""
    return f"<details><summary><b>{_name(stack)}</b>: {summary}</summary>\n\n{diff}{more}</details>\n"


def measure_comment(base: Comparison | None, head: Comparison | None, why_not: str = "") -> str:
    """Return the comment on changes, each with its interval. `why_not` says why base or head is missing."""
    lines = [MEASURE_MARKER, "## What this changes in the measurement", ""]
    if base is None or head is None:
        missing = " and ".join(name for name, side in (("base", base), ("head", head)) if side is None)
        return "\n".join([*lines, f"No comparison: {missing} could not be measured.", "", *quoted(why_not)]) + "\n"
    all_changes = changes(base, head)
    lines += [_headline(all_changes), "", _how(head), "", "| | | base | head | change | |", "|---|---|---|---|---|---|"]
    lines += [_row(change) for change in all_changes]
    lines += ["", safe(how_decided(base, head)), ""]
    differences = made_differently(base, head)
    if differences:
        lines += [
            "<details><summary>What else differs</summary>",
            "",
            *(f"- {safe(text)}" for text in differences),
            "",
            "</details>",
            "",
        ]
    lines += ["<details><summary>Verdicts</summary>", ""]
    lines += [f"- base: {safe(base.verdict)}", f"- head: {safe(head.verdict)}", "", "</details>"]
    return "\n".join(lines) + "\n"


def _headline(all_changes: Sequence[Change]) -> str:
    """Return one line with the answer by the values that decide whether something changed."""
    decided = [change for change in all_changes if change.is_decided]
    if decided:
        listed = ", ".join(f"{change.arm} {change.title} {change.decision}".strip() for change in decided)
        return f"**Changed: {safe(listed)}.**"
    decisions = {change.decision for change in all_changes if change.decides}
    return "**No measurable difference.**" if decisions == {UNCHANGED} else "**Not decided.**"


def _how(head: Comparison) -> str:
    baseline, repeats = head.arms.get(BASELINE.name), head.repeats
    host = (
        f" on {safe(baseline.provenance.cpu_model)}, {safe(str(baseline.provenance.cpus_allowed))} CPUs"
        if baseline
        else ""
    )
    return f"Stack `local` of both commits on the same runner, interleaved, {safe(str(repeats))} repeats each{host}."


def _row(change: Change) -> str:
    sides = (figures.text(side, change.entry) for side in (change.before, change.after))
    decision = f"**{change.decision}**" if change.is_decided else change.decision
    cells = map(safe, (change.title, change.arm, *sides, show_difference(change)))
    return f"| {' | '.join([*cells, decision])} |"


def quoted(text: str) -> list[str]:
    """Return the lines of a Markdown code block with the end of a text; empty for ""."""
    if not text:
        return []
    return [f"{fence(text)}text", text[-4000:], fence(text)]


def _text(blocks: Sequence[Sequence[str]]) -> str:
    return "\n".join(line for block in blocks for line in block)


def fence(text: str) -> str:
    """Return a fence longer than any run of backticks in the text, which would end the block."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))


def safe(text: str) -> str:
    """Return a text that a pull request's code wrote with its special characters escaped, so that it cannot become
    markup or a link, mention anybody, or change the direction of what follows.

    GitHub looks for mentions and issues after it has removed backslashes, so a zero-width space stands in them.
    """
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", " ", text)
    escaped = re.sub(r"([\\`*_{}\[\]<|#@&~$])", r"\\\1", line).replace("\\@", "@\u200b").replace("\\#", "\\#\u200b")
    return re.sub(r"(?i)(://|www(?=\.)|\bgh(?=-\d))", "\\1\u200b", escaped)


def _name(stack: str) -> str:
    """Return a stack's name with letters that Pulumi does not allow replaced: no backslash escapes in a tag."""
    return re.sub(r"[^A-Za-z0-9._-]", "?", stack)[:100].replace("www.", "www?")
