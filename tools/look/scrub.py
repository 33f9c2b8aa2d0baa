"""Takes secrets out of what is given away: those of the cluster by their values, others by their form.

A value is looked for as it is, line by line, in each way in which it is quoted, and in whatever is base64. What is
neither a Secret's value nor has a secret's form, name or place can't be known: a password that a log says as a plain
word stays.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
import shlex
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tools.look.scrub_forms import REPLACEMENT, is_secret_flag, is_secret_name, without_forms, without_random_words

__all__ = ["REPLACEMENT", "Scrubber", "without_data"]

SHORTEST = 6
"""Characters: shorter values also occur in ordinary text, and are not treated as secrets."""
DEEPEST = 3
"""Levels of base64 that are looked into."""

_PUBLIC = ("namespace", "ca.crt")
"""Keys of a service account's Secret that are public."""
_HELM = "helm.sh/release.v1"
"""The type of Helm's records, which are compressed: nothing else shows what they hold."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}(?:(?:\\+n|\r?\n)[ \t]*[A-Za-z0-9+/_-]+)*={0,2}")
_TEXT = re.compile(r"[^\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd]{8,}")
"""Readable text within decoded bytes."""
_WRAP = re.compile(r"\\+n|\s")
_BOUNDARY = re.compile(r"-----[A-Z ]+-----")
_CERTIFICATES = re.compile(r"\s*(?:-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\s*)+")


class Scrubber:
    """Removes the values of Secrets in all their spellings, and whatever has the form of a secret.

    `strict` is for when the Secrets can't be read: what looks random is removed too.
    """

    def __init__(
        self, secrets: Iterable[Mapping[str, Any]] = (), values: Iterable[str] = (), *, strict: bool = False
    ) -> None:
        known = {part for value in (*values, *_values(secrets)) for part in _parts(value) if len(part) >= SHORTEST}
        spellings = {text for value in known for text in _spellings(value)}
        self._texts = sorted(spellings, key=len, reverse=True)
        self._folded = [_folded(value) for value in sorted(known, key=len, reverse=True) if len(value.split()) > 1]
        self._strict = strict
        self._hiding: dict[tuple[str, int], bool] = {}
        """Words of base64 that were looked into, by the levels that were left: logs say the same words again."""

    def clean(self, text: str) -> str:
        """Return the text without secrets."""
        text = self._clean(text, DEEPEST)
        return without_random_words(text) if self._strict else text

    def clean_object(self, item: Any) -> Any:
        """Plain data, as of JSON, with its texts cleaned: before it is written, no secret is folded or escaped."""
        match item:
            case dict():
                return {self.clean(str(key)): self._entry(item, key) for key in item}
            case list() | tuple():
                after_flag = [False, *(isinstance(word, str) and is_secret_flag(word) for word in item)]
                return [
                    REPLACEMENT if hidden and isinstance(value, str) else self.clean_object(value)
                    for value, hidden in zip(item, after_flag, strict=False)
                ]
            case str():
                return self._clean_json(item) if item.lstrip()[:1] in ("{", "[") else self.clean(item)
        return item

    def _entry(self, item: dict[Any, Any], key: Any) -> Any:
        """Return the cleaned value of a key; an environment variable's name is in the key `name` next to `value`."""
        value = item[key]
        name = item.get("name") if key == "value" else key
        is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
        return REPLACEMENT if is_text and value and is_secret_name(str(name)) else self.clean_object(value)

    def _clean_json(self, text: str) -> str:
        """A text that may be JSON, such as what kubectl keeps in an annotation."""
        try:
            data = json.loads(text)
        except ValueError:
            return self.clean(text)
        cleaned = self.clean_object(data)
        return self.clean(text if cleaned == data else json.dumps(cleaned, ensure_ascii=False))

    def _clean(self, text: str, depth: int) -> str:
        for known in self._texts:
            text = text.replace(known, REPLACEMENT)
        for folded in self._folded:
            text = folded.sub(REPLACEMENT, text)
        text = without_forms(text)
        return _BASE64.sub(lambda match: REPLACEMENT if self._remembered(match[0], depth) else match[0], text)

    def _remembered(self, word: str, depth: int) -> bool:
        if (word, depth) not in self._hiding:
            self._hiding[word, depth] = self._hides(word, depth)
        return self._hiding[word, depth]

    def _hides(self, word: str, depth: int) -> bool:
        """Return whether a base64 word contains a secret when decoded, at whichever offset the encoding begins."""
        code = _WRAP.sub("", word).rstrip("=").replace("-", "+").replace("_", "/")
        for start in range(4) if depth else ():
            decoded = _decoded(code[start:]).decode("utf-8", "replace")
            if any(known in decoded for known in self._texts):
                return True
            if any(self._clean(text, depth - 1) != text for text in _TEXT.findall(decoded)):
                return True
        return False


def _decoded(code: str) -> bytes:
    code = code[:-1] if len(code) % 4 == 1 else code
    try:
        return base64.b64decode(code + "=" * (-len(code) % 4))
    except binascii.Error:
        return b""


def _values(secrets: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each value of each Secret, encoded as the API server returns it, and decoded."""
    for secret in secrets:
        for key, encoded in (secret.get("data") or {}).items():
            decoded = base64.b64decode(encoded).decode(errors="replace")
            if key not in _PUBLIC and secret.get("type") != _HELM and not _CERTIFICATES.fullmatch(decoded):
                yield from (encoded, decoded)


def _parts(value: str) -> Iterator[str]:
    """A value, each of its lines, what is behind a line's name, and what the JSON that it may be holds."""
    lines = [line.strip() for line in value.splitlines()]
    lines = [line for line in lines if not _BOUNDARY.fullmatch(line)]
    for line in lines:
        _, separator, rest = line.partition("=" if "=" in line else ": ")
        if separator and is_secret_name(line.partition(separator)[0].strip()):
            yield rest.strip().strip("\"'")
    yield from (value.strip(), *lines)
    if value.lstrip()[:1] in ("{", "["):
        try:
            yield from _leaves(json.loads(value))
        except ValueError:
            return


def _leaves(data: Any) -> Iterator[str]:
    if isinstance(data, dict | list):
        for item in data.values() if isinstance(data, dict) else data:
            yield from _leaves(item)
    elif isinstance(data, str):
        yield data


def _spellings(value: str) -> Iterator[str]:
    """A value as it is, quoted as programs quote it, and in base64."""
    yield value
    escaped = json.dumps(value)[1:-1]
    yield from (escaped, json.dumps(escaped)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])
    yield from (value.replace("'", "''"), shlex.quote(value).strip("'"), html.escape(value))
    yield from (urllib.parse.quote(value, safe=""), urllib.parse.quote(value), urllib.parse.quote_plus(value))
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(value.encode()).decode().rstrip("=")


def _folded(value: str) -> re.Pattern[str]:
    """A value with blanks, wherever a writer has broken its line: YAML at 80 columns, or a log with indents."""
    return re.compile(r"(?:\\+[nrt]|[\s\\])+".join(map(re.escape, value.split())))


def without_data(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """An object fit to be shown: of a Secret only the names of its values, and of none what managed which field.

    Of what is binary in a ConfigMap the names as well: it is somebody's script.
    """
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    if kind != "secrets":
        binary = {"binaryData": sorted(item["binaryData"])} if "binaryData" in item else {}
        return {**item, **binary, "metadata": metadata}
    annotations = metadata.pop("annotations", {})  # kubectl keeps a copy of the whole object in one
    named = {"annotations": sorted(annotations)} if annotations else {}
    return {"metadata": metadata | named, "type": item.get("type"), "data": sorted(item.get("data") or {})}
