r"""Secrets that are known by their form alone: services' keys, headers, addresses, what has a secret's name.

Forms of services are as those services document them, and as detect-secrets and gitleaks look for them. Between a name
and its value any level of escaping may stand (`\"password\": \"…\"`), because logs quote JSON that quotes JSON.
"""

from __future__ import annotations

import re

REPLACEMENT = "[removed]"

_NAMES = (
    r"passw(?:or)?d|passwd|passphrase|pwd|_pass|secret|token|credentials?|identity-?token|connection[_-]?string|"
    r"(?:api|access|secret|private|client|account|shared|signing|encryption|storage|license|master|ssh)[_-]?key|"
    r"client-key-data|access[_-]?key[_-]?id|aws_?secret_?access_?key|_auth|cookie|salt"
)
_IS_NAME = re.compile(rf"(?i).*(?:{_NAMES})|auth")
_FLAG = re.compile(rf"(?i)--?[\w-]*(?:{_NAMES}|user)")
_QUOTE = r"\\*[\"']?"
_KEPT = r"(?!(?:true|false|null|none|nil|\d{1,4})\b|\[removed\])"
"""What says nothing, or was removed before."""
_QUOTED = r"(?P<quote>\\*[\"']))(?:(?!(?P=quote))(?:\\.|[^\\\n]))+"
"""What is between quotes of any level of escaping; the group that it closes is `kept`."""
_WORD = r"[^\s\"'\\]+"

_SERVICES = (
    r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[0-9A-Z]{16}\b",  # AWS
    r"\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}",  # GitHub
    r"\bgl(?:pat|rt|dt|oas|ptt|cbt|ft|soat|imt|agent)-[\w-]{20,}",  # GitLab
    r"\bxox[a-z]-[\w-]{10,}|\bxapp-[\w-]{10,}|(?<=hooks\.slack\.com/)(?:services|workflows)/[\w/+-]+",  # Slack
    r"\b[rs]k_(?:live|test)_\w{10,}",  # Stripe
    r"\bAIza[\w-]{35}|\bya29\.[\w-]{10,}|\bGOCSPX-[\w-]{20,}",  # Google
    r"\bsk-[\w-]{20,}",  # OpenAI, Anthropic
    r"\bhf_\w{20,}|\bnpm_\w{30,}|\bpypi-[\w-]{20,}|\bdckr_[a-z]+_[\w-]{20,}",  # Hugging Face and registries
    r"\bpul-[0-9a-f]{40}|\bhv[sbr]\.[\w-]{20,}|\bdo[opr]_v1_[0-9a-f]{40,}|\bSG\.[\w-]{16,}\.[\w-]{16,}",
    r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",  # a JSON web token, as of a service account
)
_WRITTEN = (
    r"(?:(?<=token: )|(?<=--token ))[a-z0-9]{6}\.[a-z0-9]{16}\b",  # kubeadm's bootstrap token
    r"(?<=--discovery-token-ca-cert-hash sha256:)[0-9a-f]{64}",
    r"(?<=://)[^\s/@\"'<>]{1,500}(?=@)",  # a user in an address, with or without a password
    r"(?<=://)[^\s/:@\"'<>]{0,200}:[^\s\"'<>]{0,500}(?=@(?!sha256:))",  # a password that holds / or @
)
_BY_FORM = re.compile("|".join(f"(?:{form})" for form in (*_SERVICES, *_WRITTEN)))
_NAMED = (
    # name: several words, as a line of YAML
    re.compile(rf"(?i)^(?P<kept>[ \t-]*[\w.-]*(?:{_NAMES})[ \t]*:[ \t]+){_KEPT}(?![|>])[^\s\"'{{].*"),
    re.compile(rf"(?i)(?P<kept>(?:{_NAMES}){_QUOTE}\s*(?:=>|:=|[:=])\s*{_QUOTED}"),
    re.compile(rf"(?i)(?P<kept>(?:{_NAMES}){_QUOTE}\s*(?:=>|:=|[:=])\s*){_KEPT}{_WORD}"),
    re.compile(rf"(?i)(?P<kept>\\*\"auth\\*\"\s*:\s*{_QUOTED}"),
    re.compile(rf"(?i)(?P<kept>(?<![\w-])--?[\w-]*(?:{_NAMES})(?:=|\s+)){_QUOTE}{_WORD}"),
    re.compile(r"(?i)(?P<kept>authorization\\*[\"']?\s*[:=,]\s*\\*[\"']?)(?:[a-z]+\s+)?[^\s\"'\\]+"),
    re.compile(r"(?i)(?P<kept>\b(?:bearer|basic)\s+)(?=[\w.~+/-]*\d|[\w.~+/-]{16})[\w.~+/-]{6,}=*"),
    re.compile(r"(?i)(?P<kept>\b(?:set-)?cookie:\s*).+"),
)
_BLOCK_BEGINS = re.compile(r":[ \t]*[|>][-+\d]*\n")
_BLOCK = re.compile(rf"(?im)(?P<kept>(?:{_NAMES}){_QUOTE}[ \t]*:[ \t]*[|>][-+\d]*)\n(?P<in>[ \t]+)\S.*(?:\n(?P=in).*)*")
"""name: |  and lines that are indented."""
_KEY = r"[A-Z ]*PRIVATE KEY(?: BLOCK)?-----"
_PRIVATE_KEYS = (
    re.compile(rf"-----BEGIN {_KEY}(?:(?!-----BEGIN).)*?-----END {_KEY}", re.DOTALL),
    # Cut off at either end, as in the last megabyte of a log
    re.compile(rf"-----BEGIN {_KEY}(?:[A-Za-z0-9+/=:,\s-]|\\n)*"),
    re.compile(rf"(?:(?<![A-Za-z0-9+/=])[A-Za-z0-9+/=]{{1,80}}(?:\\+n|\s)+){{1,200}}-----END {_KEY}"),
)
_HINTS = (
    "pass", "pwd", "secret", "token", "credential", "connection", "key", "auth", "cookie", "salt", "bearer", "basic",
    "://", "akia", "asia", "abia", "acca", "aroa", "aida", "gh", "git", "gl", "xox", "xapp", "slack", "sk-",
    "k_live", "k_test", "aiza", "ya29", "gocspx", "hf_", "npm_", "pypi", "dckr", "pul-", "hvs", "hvb", "hvr", "_v1_",
    "sg.", "eyj",
)  # fmt: skip
"""Every form has one of these in its line: most lines of a log have none, and cost no more than this look."""


_RANDOM = re.compile(
    r"(?<!sha256:)(?<![A-Za-z0-9+/_-])(?:[0-9A-Fa-f]{24,}|"
    r"(?=[\w+/-]*\d)(?=[\w+/-]*[A-Z])(?=[\w+/-]*[a-z])[\w+/-]{20,}={0,2})(?![A-Za-z0-9])",
    re.ASCII,
)


def is_secret_name(name: str) -> bool:
    """Return whether a name is that of a secret: RAY_AUTH_TOKEN, dbPassword, client-key-data; not secretName."""
    return bool(_IS_NAME.fullmatch(name))


def is_secret_flag(word: str) -> bool:
    """Return whether a word is an option whose value is a secret: --password."""
    return bool(_FLAG.fullmatch(word))


def without_forms(text: str) -> str:
    """The text without what has the form of a secret."""
    for key in _PRIVATE_KEYS if "PRIVATE KEY" in text else ():
        text = key.sub(REPLACEMENT, text)
    if _BLOCK_BEGINS.search(text):
        text = _BLOCK.sub(_without_value, text)
    return "".join(map(_line_without_forms, text.splitlines(keepends=True)))


def _line_without_forms(line: str) -> str:
    lowered = line.lower()
    if not any(hint in lowered for hint in _HINTS):
        return line
    line = _BY_FORM.sub(REPLACEMENT, line)
    for named in _NAMED:
        line = named.sub(_without_value, line)
    return line


def _without_value(match: re.Match[str]) -> str:
    return f"{match['kept']}{REPLACEMENT}"


def without_random_words(text: str) -> str:
    """The text without whatever looks random: the last resort where the secrets of a cluster are not known."""
    return _RANDOM.sub(REPLACEMENT, text)
