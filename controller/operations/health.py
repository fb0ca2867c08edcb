"""Health as named checks, in the manner of kube-apiserver.

`/healthz` asks "should this process be restarted?": the event loop answers, the lease watchdog is content, no
informer has been silent for too long. `/readyz` asks "can it do its work?": the caches are synced. Readiness does not
depend on leadership: a standby is ready. `?verbose` lists every check, `/healthz/NAME` asks one.

A check returns None when all is well, else one sentence for a person.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

Check = Callable[[], str | None]


class Probe(StrEnum):
    """Which question a check answers."""

    LIVE = "healthz"
    READY = "readyz"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer to one probe: the HTTP status and a body of plain text."""

    status: int
    text: str


class Health:
    """A registry of checks; evaluated anew at every request, never cached."""

    def __init__(self) -> None:
        self._checks: dict[Probe, dict[str, Check]] = {probe: {} for probe in Probe}

    def add(self, probe: Probe, name: str, check: Check) -> None:
        """Register a check. Raises ValueError when the name is taken."""
        if name in self._checks[probe]:
            raise ValueError(f"{probe} has a check named {name!r} already")
        self._checks[probe][name] = check

    def verdict(self, probe: Probe, name: str | None = None, *, verbose: bool = False) -> Verdict:
        """200 when every check (or the named one) is content, else 503; 404 for an unknown name."""
        checks = self._checks[probe]
        if name is not None:
            if name not in checks:
                return Verdict(404, f"no check named {name}; there are: {', '.join(checks) or 'none'}\n")
            checks = {name: checks[name]}
        lines, failed = [], []
        for each, check in checks.items():
            try:
                complaint = check()
            except Exception as error:  # noqa: BLE001 - a broken check is a failed check, not a broken endpoint
                complaint = f"the check itself failed: {error!r}"
            lines.append(f"[+]{each} ok" if complaint is None else f"[-]{each} failed: {complaint}")
            if complaint is not None:
                failed.append(each)
        outcome = f"{probe} check passed" if not failed else f"{probe} check failed: {', '.join(failed)}"
        if not failed and not verbose:
            return Verdict(200, "ok\n")
        return Verdict(503 if failed else 200, "\n".join([*lines, outcome]) + "\n")
