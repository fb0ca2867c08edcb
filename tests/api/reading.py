"""A spec, read."""

from __future__ import annotations

from controller.api import parse_spec


def parsed(value):
    spec, findings = parse_spec(value)
    assert findings == []
    assert spec is not None
    return spec


def findings_of(value):
    spec, findings = parse_spec(value)
    assert findings, "nothing was refused"
    assert spec is None
    return [str(finding) for finding in findings]
