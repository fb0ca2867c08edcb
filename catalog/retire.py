"""Retiring a profile: taken out of the catalog and kept out.

A tombstone is written for the profile and for every measurement it was merged from, so that neither a re-import of the
same files nor an older catalog brings it back. It carries the date and the reason, which is what the next person asks.
"""

from __future__ import annotations

import msgspec

from catalog.canonical import profile_digest
from catalog.merge import run_key
from catalog.schema import Catalog, Profile, Tombstone


def retire(catalog: Catalog, profiles: tuple[Profile, ...], *, date: str, reason: str) -> Catalog:
    """`catalog` without `profiles` and with their tombstones."""
    gone = {profile.key for profile in profiles}
    stones = set(catalog.retired)
    for profile in profiles:
        stones.update(_tombstones(profile, date, reason))
    return msgspec.structs.replace(
        catalog,
        profiles=tuple(profile for profile in catalog.profiles if profile.key not in gone),
        retired=tuple(sorted(stones, key=lambda t: (t.key, t.digest, t.date, t.reason))),
    )


def _tombstones(profile: Profile, date: str, reason: str) -> set[Tombstone]:
    digest = profile_digest(profile)
    runs = {profile.source.run, *(point.run for point in profile.points if point.run)}
    stones = {Tombstone(key=run_key(profile.key, run), digest=digest, date=date, reason=reason) for run in runs}
    stones |= {Tombstone(key=profile.key, digest=origin, date=date, reason=reason) for origin in profile.source.digests}
    return stones
