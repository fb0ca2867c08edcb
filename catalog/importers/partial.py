"""Identity as far as a file states it, completed by what the importing person states.

Where the file and the person both speak they must agree; where neither speaks the row is refused. Nothing is assumed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from catalog.identity import (
    DEGREES,
    Engine,
    Identity,
    Parallel,
    Quantization,
    Role,
    check_parallel,
)
from catalog.importers.options import ImportOptions
from catalog.importers.rules import Refused, Rule

_PARTS: Final = ("role", "model", "quantization", "engine", "hardware")


class PartialIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """None: the file does not say. `degrees` holds the degrees that it states."""

    role: Role | None = None
    model: str | None = None
    quantization: Quantization | None = None
    engine: Engine | None = None
    hardware: str | None = None
    degrees: dict[str, int] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, identity: Identity) -> PartialIdentity:
        """Everything stated."""
        return cls(
            role=identity.role,
            model=identity.model,
            quantization=identity.quantization,
            engine=identity.engine,
            hardware=identity.hardware,
            degrees={name: getattr(identity.parallel, name) for name in DEGREES},
        )

    def complete(self, options: ImportOptions) -> Identity:
        """The whole identity. Raises Refused naming what is missing or contradicted."""
        stated = options.identity
        if stated is not None:
            self.check_against(stated)
            if stated.quantization is None and self.quantization is not None:
                return msgspec.structs.replace(stated, quantization=self.quantization)
            if stated.quantization is None:
                raise Refused(Rule.IDENTITY_MISSING, "--identity leaves the quantization unstated")
            return stated
        missing = [name for name in _PARTS if getattr(self, name) is None]
        missing += [name for name in ("gpus", "tp") if name not in self.degrees]
        if missing:
            raise Refused(Rule.IDENTITY_MISSING, f"the file does not state {', '.join(missing)}: give --identity")
        if self.role is None or self.model is None or self.engine is None or self.hardware is None:
            raise AssertionError("unreachable: `missing` names what is None")
        parallel = Parallel(**self.degrees)
        problem = check_parallel(self.engine, parallel)
        if problem:
            raise Refused(Rule.TOPOLOGY, problem)
        return Identity(
            role=self.role,
            model=self.model,
            quantization=self.quantization,
            engine=self.engine,
            hardware=self.hardware,
            parallel=parallel,
        )

    def check_against(self, stated: Identity) -> None:
        """Raises Refused where a part that the file states differs from the stated identity."""
        pairs = [(name, getattr(self, name), getattr(stated, name)) for name in _PARTS]
        pairs += [(name, value, getattr(stated.parallel, name)) for name, value in self.degrees.items()]
        for name, mine, theirs in pairs:
            if mine is None or theirs is None or mine == theirs:
                continue
            if name == "model" and str(mine).lower() == str(theirs).lower():
                continue
            raise Refused(Rule.IDENTITY_CONTRADICTED, f"{name} is {mine} in the file, {theirs} in --identity")
