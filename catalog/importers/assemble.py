"""From judged rows to profiles: one profile per identity, workload, tool, image and run.

Rows of one sweep whose nominal lengths are unknown differ by a few tokens in their realised ones; they form one
workload when both lengths lie within 5 % of the group's. The same concurrency twice in one run keeps the row of lower
throughput (the two runners of a pool differ by that much) and refuses the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Final, NamedTuple

import msgspec

from catalog.identity import Quantization
from catalog.importers.candidate import Measurement
from catalog.importers.rules import Refusal, Rule
from catalog.schema import Profile, Source, Workload

WORKLOAD_TOLERANCE: Final = 0.05


class LabelledMeasurement(NamedTuple):
    """A measurement and where it came from."""

    file: str
    row: str
    measurement: Measurement


class Assembly(NamedTuple):
    """Single-run profiles in order of key, and the rows that did not fit into one. `origins`: by `id` of a profile and
    concurrency, the row that a point was."""

    profiles: list[Profile]
    refusals: list[Refusal]
    origins: dict[int, dict[int, LabelledMeasurement]]


def assemble(measurements: Iterable[LabelledMeasurement]) -> Assembly:
    """Group rows into profiles. The result does not depend on the order of the rows."""
    families: dict[tuple[str, Source, str | None], list[LabelledMeasurement]] = {}
    identity_keys: dict[int, str] = {}
    for entry in measurements:
        identity = entry.measurement.identity
        # Importers share one identity object between the rows of a deployment.
        key = identity_keys.get(id(identity))
        if key is None:
            key = identity_keys[id(identity)] = identity.key
        families.setdefault((key, entry.measurement.source, entry.measurement.engine_version), []).append(entry)
    profiles: list[Profile] = []
    refusals: list[Refusal] = []
    origins: dict[int, dict[int, LabelledMeasurement]] = {}
    for entries in families.values():
        for workload, members in _by_workload(entries):
            kept = _kept(members, refusals)
            first = members[0].measurement
            profile = Profile(
                role=first.identity.role,
                model=first.identity.model,
                quantization=_stated(first),
                engine=first.identity.engine,
                hardware=first.identity.hardware,
                parallel=first.identity.parallel,
                engine_version=first.engine_version,
                workload=workload,
                points=tuple(kept[concurrency].measurement.point for concurrency in sorted(kept)),
                source=first.source,
            )
            profiles.append(profile)
            origins[id(profile)] = kept
    profiles.sort(key=lambda profile: (profile.key, repr(profile.source)))
    return Assembly(profiles, refusals, origins)


def _stated(measurement: Measurement) -> Quantization:
    quantization = measurement.identity.quantization
    if quantization is None:
        raise AssertionError("unreachable: judge refuses a row without a quantization")
    return quantization


def _by_workload(entries: list[LabelledMeasurement]) -> list[tuple[Workload, list[LabelledMeasurement]]]:
    groups: dict[tuple[int, int], list[LabelledMeasurement]] = {}
    loose: list[LabelledMeasurement] = []
    for entry in entries:
        workload = entry.measurement.workload
        if entry.measurement.nominal:
            groups.setdefault((workload.input_tokens, workload.output_tokens), []).append(entry)
        else:
            loose.append(entry)
    result = [(_workload(lengths, members), members) for lengths, members in groups.items()]
    while loose:
        loose.sort(key=lambda entry: entry.measurement.workload.lengths)
        seed = loose[0].measurement.workload.lengths
        members = [entry for entry in loose if _near(entry.measurement.workload.lengths, seed)]
        loose = [entry for entry in loose if not _near(entry.measurement.workload.lengths, seed)]
        lengths = [entry.measurement.workload.lengths for entry in members]
        middle = (max(1, round(median([i for i, _ in lengths]))), max(1, round(median([o for _, o in lengths]))))
        result.append((_workload(middle, members), members))
    return result


def _near(lengths: tuple[float, float], seed: tuple[float, float]) -> bool:
    return all(abs(mine / theirs - 1) <= WORKLOAD_TOLERANCE for mine, theirs in zip(lengths, seed, strict=True))


def _workload(lengths: tuple[int, int], members: list[LabelledMeasurement]) -> Workload:
    first = members[0].measurement.workload
    if all(member.measurement.workload == first for member in members):
        return msgspec.structs.replace(first, input_tokens=lengths[0], output_tokens=lengths[1])
    means = [member.measurement.workload.lengths for member in members]
    return Workload(
        input_tokens=lengths[0],
        output_tokens=lengths[1],
        cache_behavior=first.cache_behavior,
        mean_input_tokens=round(sum(i for i, _ in means) / len(means), 1),
        mean_output_tokens=round(sum(o for _, o in means) / len(means), 1),
    )


def _kept(members: list[LabelledMeasurement], refusals: list[Refusal]) -> dict[int, LabelledMeasurement]:
    """One row for each concurrency; the others become refusals."""
    kept: dict[int, LabelledMeasurement] = {}
    for entry in sorted(members, key=_conservative) if len(members) > 1 else members:
        concurrency = entry.measurement.point.concurrency
        other = kept.setdefault(concurrency, entry)
        if other is not entry:
            where = f"{other.file} {other.row}".strip()
            detail = f"concurrency {concurrency} of this run is already measured by {where}"
            refusals.append(Refusal(entry.file, entry.row, Rule.DUPLICATE, detail))
    return kept


def _conservative(entry: LabelledMeasurement) -> tuple[float, str, str]:
    return entry.measurement.point.total_tokens_per_second, entry.file, entry.row
