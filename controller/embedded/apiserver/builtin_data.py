"""The rules of ConfigMaps and Secrets: size, keys, and what `immutable` holds fast."""

from __future__ import annotations

import re

from controller.embedded.apiserver.errors import Cause, Object, shown

# core/v1 MaxSecretSize, for ConfigMaps too.
_MAX_BYTES = 1024 * 1024
_MAX_KEY = 253
_KEY_FORM = "[-._a-zA-Z0-9]+"
_KEY = re.compile(_KEY_FORM)
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    f"'key-name', regex used for validation is '{_KEY_FORM}')"
)
_PARTS = ("data", "binaryData")


def data_causes(obj: Object, old: Object | None) -> list[Cause]:
    """What is wrong with the data, by itself and against the stored object."""
    causes = []
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for part in _PARTS:
        for key in obj.get(part) or {}:
            causes += [_invalid(f"{part}[{key}]", key, problem) for problem in _key_problems(key)]
            if part == "data" and key in binary:
                causes.append(_invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    if sum(len(value) for value in (*data.values(), *binary.values())) > _MAX_BYTES:
        causes.append(Cause("[]", "FieldValueTooLong", f"Too long: may not be more than {_MAX_BYTES} bytes"))
    if old is not None and old.get("immutable"):
        changed = [] if obj.get("immutable") else ["immutable"]
        changed += [part for part in _PARTS if (obj.get(part) or {}) != (old.get(part) or {})]
        text = "Forbidden: field is immutable when `immutable` is set"
        causes += [Cause(part, "FieldValueForbidden", text) for part in changed]
    return causes


def _invalid(field: str, key: str, text: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown(key)}: {text}")


def _key_problems(key: str) -> list[str]:
    problems = [f"must be no more than {_MAX_KEY} characters"] if len(key) > _MAX_KEY else []
    if not _KEY.fullmatch(key):
        problems.append(_KEY_RULE)
    if key in (".", ".."):
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return problems
