"""From the bytes of a `/metrics` body to an engine reading: scan, tell the engine, select the model, read.

Raises `BodyRefused` and nothing else, whatever the bytes are. Which engine a body is from is told by the series it has;
a hint only decides between several.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from controller.engines.exposition import Scan, Scanner
from controller.engines.names import PrintedName
from controller.engines.places import Places
from controller.engines.profile import PROCESS_START, Draft, Profile
from controller.engines.profiles import PROFILES
from controller.engines.reading import EngineReading, Missing, MissingReason, Role
from controller.engines.refusal import BodyRefused, Reason
from controller.engines.view import Row, View
from controller.foundation import some_of

# Every other field of a reading is None only with a reason.
_ALWAYS_SET = frozenset({"engine", "models", "queues", "counter_basis", "quality", "missing"})
_OPTIONAL_FIELDS = tuple(name for name in EngineReading.__struct_fields__ if name not in _ALWAYS_SET)
_NAMES_SHOWN = 5


class BodyReader:
    """Reads bodies of all known engines with one scanner, whose memory of label blocks they share."""

    def __init__(self, profiles: Sequence[Profile] = PROFILES) -> None:
        self._profiles = {profile.engine: profile for profile in profiles}
        self._engine_of: dict[str, str] = {}
        names: dict[str, PrintedName] = {}
        for profile in profiles:
            for name in profile.printed_names():
                names[name.printed] = name
                if name.printed not in PROCESS_START.names:
                    self._engine_of[name.printed] = profile.engine
        self._scanner = Scanner(names.values())
        self._places = Places()

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The engines it knows."""
        return tuple(self._profiles.values())

    def read(
        self,
        body: bytes,
        *,
        engine: str | None = None,
        models: Collection[str] = (),
        role: Role | None = None,
        openmetrics: bool = False,
    ) -> EngineReading:
        """What the engine behind a body reports.

        `engine`: the expected one, in any case, used where the body has series of several. `models`: the names whose
        series count (the served model and its adapters); empty where the endpoint serves one. `role`: what the process
        does, where that is known. `openmetrics`: the server said so.
        """
        scan = self._scanner.scan(body, openmetrics=openmetrics)
        profile = self._profile(scan, None if engine is None else engine.lower())
        rows = self._rows(scan, profile)
        damaged = [name for name in scan.damaged if self._engine_of.get(name, profile.engine) == profile.engine]
        if not rows:
            raise BodyRefused(Reason.MALFORMED, f"{profile.engine} series, but no line of them can be read")
        selected, found = _of_models(rows, models)
        draft = Draft(View(selected, damaged, profile.prefixes), role)
        reading = profile.read(draft)
        return msgspec.structs.replace(
            reading, models=found, quality=frozenset(draft.quality), missing=_why_none(reading, draft.missing)
        )

    def _rows(self, scan: Scan, profile: Profile) -> list[Row]:
        """The rows of the profile's series and of the process. Raises BodyRefused for those of a router."""
        rows: list[Row] = []
        for sample in scan.samples:
            if self._engine_of.get(sample.series.name, profile.engine) != profile.engine:
                continue
            place = self._places.of(sample.series, profile.model_labels, profile.router_labels)
            if place.router_label is not None:
                raise BodyRefused(
                    Reason.ROUTER,
                    f'{place.name} has the label "{place.router_label}": a router that repeats its backends',
                )
            rows.append((place, sample.value))
        return rows

    def _profile(self, scan: Scan, hint: str | None) -> Profile:
        printed = [sample.series.name for sample in scan.samples]
        engines = sorted({self._engine_of[name] for name in (*printed, *scan.damaged) if name in self._engine_of})
        if hint in engines:
            return self._profiles[hint]
        if not engines:
            known = " or ".join(self._profiles)
            raise BodyRefused(
                Reason.NO_ENGINE_SERIES, f"no series of {known}; another program, or the engine's statistics are off"
            )
        if len(engines) > 1:
            raise BodyRefused(Reason.AMBIGUOUS_ENGINE, f"series of {' and '.join(engines)} in one body")
        return self._profiles[engines[0]]


def _of_models(rows: Sequence[Row], models: Collection[str]) -> tuple[Sequence[Row], tuple[str, ...]]:
    """(the rows of these models and those without a model, the model names that were found)."""
    found = sorted({place.model for place, _ in rows if place.model is not None})
    if not models:
        if len(found) > 1:
            raise BodyRefused(Reason.AMBIGUOUS_MODEL, f"series of the models {_listed(found)}; say which one is meant")
        return rows, tuple(found)
    chosen = tuple(model for model in found if model in models)
    if found and not chosen:
        raise BodyRefused(
            Reason.NO_SERIES_FOR_MODEL, f"no series of {_listed(sorted(models))}; the engine reports {_listed(found)}"
        )
    return [row for row in rows if row[0].model is None or row[0].model in models], chosen


def _why_none(reading: EngineReading, noted: tuple[Missing, ...]) -> tuple[Missing, ...]:
    """Exactly one reason for every field that is None."""
    reasons = {missing.field: missing for missing in reversed(noted)}
    return tuple(
        reasons.get(field) or Missing(field, MissingReason.ABSENT, f"{reading.engine} prints no such series")
        for field in _OPTIONAL_FIELDS
        if getattr(reading, field) is None
    )


def _listed(names: Sequence[str]) -> str:
    return some_of([f'"{name[:80]}"' for name in names], _NAMES_SHOWN)
