"""Making one catalog of several measurements of the same things.

For each identity and workload:

1. Candidates that a tombstone retires are dropped.
2. Measured candidates displace estimated ones.
3. One family of tool, tool version and image serves, because a curve that mixes two of them has steps that no replica
   has: the family of the newest clean candidate (no point with a cold tail), or of the newest where none is clean.
4. Inside the family each concurrency takes its newest clean point, else its newest: runs of one image repeat within 1
%,
   and a partial re-run must not cost the curve its other points. Points of other runs than the profile's keep their
   run.

The profile lists the digests of every single-run profile it was made from or chosen over. Merging is idempotent, and
its result does not depend on the order of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from catalog.canonical import profile_digest
from catalog.schema import Basis, Catalog, Point, PointFlag, Profile, Tombstone


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The merged catalog; `superseded` counts candidates of which nothing is left, `retired` holds those that
    tombstones dropped."""

    catalog: Catalog
    superseded: int
    retired: tuple[Profile, ...]


def merge_catalogs(catalogs: Iterable[Catalog], name: str | None = None) -> MergeResult:
    """All profiles and tombstones of `catalogs` in one; named after the first unless `name` is given."""
    inputs = list(catalogs)
    profiles = [profile for catalog in inputs for profile in catalog.profiles]
    tombstones = {tombstone for catalog in inputs for tombstone in catalog.retired}
    return merge_profiles(profiles, tombstones, name or (inputs[0].name if inputs else "catalog"))


def merge_profiles(profiles: Iterable[Profile], tombstones: Iterable[Tombstone], name: str) -> MergeResult:
    """One profile per identity and workload by the rules of the module."""
    stones = frozenset(tombstones)
    retired_digests = {stone.digest for stone in stones}
    retired_runs = {stone.key for stone in stones if "#" in stone.key}
    by_key: dict[str, list[Profile]] = {}
    for profile in profiles:
        by_key.setdefault(profile.key, []).append(profile)
    merged: list[Profile] = []
    retired: list[Profile] = []
    superseded = 0
    for key in sorted(by_key):
        alive = []
        for profile in by_key[key]:
            if _is_retired(profile, key, retired_digests, retired_runs):
                retired.append(profile)
            else:
                alive.append(profile)
        if alive:
            result, lost = _merge_one(alive)
            merged.append(result)
            superseded += lost
    catalog = Catalog(
        name=name,
        profiles=tuple(merged),
        retired=tuple(sorted(stones, key=lambda t: (t.key, t.digest, t.date, t.reason))),
    )
    return MergeResult(catalog, superseded, tuple(retired))


def run_key(key: str, run: str | None) -> str:
    """The key of a tombstone: identity, workload and, where known, the run."""
    return f"{key}#{run}" if run else key


def _is_retired(profile: Profile, key: str, digests: set[str], runs: set[str]) -> bool:
    if runs and run_key(key, profile.source.run) in runs:
        return True
    if runs and any(point.run and run_key(key, point.run) in runs for point in profile.points):
        return True
    if not digests:
        return False
    return profile_digest(profile) in digests or not digests.isdisjoint(profile.source.digests)


def _merge_one(candidates: list[Profile]) -> tuple[Profile, int]:
    if len(candidates) == 1:
        return candidates[0], 0
    by_digest: dict[str, Profile] = {}
    for profile in candidates:
        digest = profile_digest(profile)
        by_digest[digest] = _with_origins(profile, by_digest.get(digest, profile).source.digests)
    # What a merged profile was made from adds nothing beside it. Its own digest may stand among its origins: where the
    # newest run gave every point, the two have one content.
    inside = {origin for digest, p in by_digest.items() for origin in p.source.digests if origin != digest}
    # Profiles that each name the other as an origin were written by hand: all of them count.
    remaining = {digest: profile for digest, profile in by_digest.items() if digest not in inside} or by_digest
    lost = len(candidates) - len(remaining)
    if len(remaining) == 1:
        return next(iter(remaining.values())), lost
    origins = {d for digest, p in remaining.items() for d in (p.source.digests or (digest,))}
    # The digest breaks ties between undated runs, so that the order of the inputs never decides.
    newest_first = sorted(remaining.items(), key=lambda item: (_age(item[1].source.date, item[1].source.run), item[0]))
    ordered = [profile for _, profile in reversed(newest_first)]
    measured = [profile for profile in ordered if profile.source.basis is Basis.MEASURED] or ordered
    newest = next((profile for profile in measured if _is_clean(profile)), measured[0])
    family = [profile for profile in measured if profile.family == newest.family]
    points, contributors = _points(family)
    # The first contributor in order of recency gives the profile its provenance.
    lead = next(profile for profile in family if id(profile) in contributors)
    pinned = tuple(_pin(point, origin, lead) for point, origin in points)
    profile = msgspec.structs.replace(
        lead,
        points=pinned,
        source=msgspec.structs.replace(lead.source, digests=tuple(sorted(origins))),
    )
    return profile, lost + len(remaining) - len(contributors)


def _with_origins(profile: Profile, origins: tuple[str, ...]) -> Profile:
    """The profile with these origins beside its own: two copies of one content may know different ones."""
    together = tuple(sorted({*profile.source.digests, *origins}))
    if together == profile.source.digests:
        return profile
    return msgspec.structs.replace(profile, source=msgspec.structs.replace(profile.source, digests=together))


def _points(family: list[Profile]) -> tuple[list[tuple[Point, Profile]], set[int]]:
    best: dict[int, tuple[tuple[object, ...], Point, Profile]] = {}
    for profile in family:
        for point in profile.points:
            rank = (PointFlag.COLD_TAIL not in point.flags, *_point_recency(point, profile))
            known = best.get(point.concurrency)
            if known is None or rank > known[0]:
                best[point.concurrency] = (rank, point, profile)
    chosen = [(point, profile) for _, (_, point, profile) in sorted(best.items())]
    return chosen, {id(profile) for _, profile in chosen}


def _pin(point: Point, origin: Profile, lead: Profile) -> Point:
    """The point with its own run and date where the profile's would be wrong for it."""
    run, date = point.run or origin.source.run, point.date or origin.source.date
    run = None if run == lead.source.run else run
    date = None if date == lead.source.date else date
    return point if (run, date) == (point.run, point.date) else msgspec.structs.replace(point, run=run, date=date)


def _is_clean(profile: Profile) -> bool:
    return not any(PointFlag.COLD_TAIL in point.flags for point in profile.points)


def _age(date: str | None, run: str | None) -> tuple[str, int, str]:
    # Run numbers of a CI system ascend with time; official InferenceX rows carry no date.
    number = int(run) if run and run.isascii() and run.isdigit() and len(run) < 20 else 0
    return date or "", number, run or ""


def _point_recency(point: Point, profile: Profile) -> tuple[str, int, str, float]:
    # Of two undated measurements the slower one is the safe one.
    age = _age(point.date or profile.source.date, point.run or profile.source.run)
    return (*age, -point.total_tokens_per_second)
