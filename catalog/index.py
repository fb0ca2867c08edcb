"""Finding profiles by identity, and the nearest one when there is none.

A look-up by identity is a dictionary access. The nearest miss compares the wanted identity with every identity of the
catalog in one array operation; it is asked for only when a role has no profile, but then for every role at every tick.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from catalog.canonical import profile_digest
from catalog.identity import DEGREES, Identity, Quantization, differing_fields
from catalog.schema import Catalog, Profile
from catalog.workload_mix import MixFit, MixRefusal, fit_profiles

# How telling a difference is: the model first, then what decides the order of magnitude of the speed. Each weight is
# above the sum of those after it, so "nearest" reads as a sorted comparison and has no surprising ties.
_WEIGHTS: Final = np.array([4096.0, 2048.0, 1024.0, 512.0, 256.0, 128.0, 64.0, 32.0, 16.0, 8.0, 4.0, 2.0])
_FIELDS: Final = 5 + len(DEGREES)


class CatalogIndex:
    """Immutable after construction. Profiles of one identity ascend by workload."""

    def __init__(self, catalog: Catalog) -> None:
        by_key: dict[str, list[Profile]] = {}
        identities: dict[str, Identity] = {}
        for profile in catalog.profiles:
            identity = profile.identity
            by_key.setdefault(identity.key, []).append(profile)
            identities.setdefault(identity.key, identity)
        self._by_key = {key: tuple(profiles) for key, profiles in by_key.items()}
        self._quantizations: dict[str, list[Quantization]] = {}
        for identity in identities.values():
            if identity.quantization is not None:
                self._quantizations.setdefault(_open_key(identity), []).append(identity.quantization)
        self._identities = tuple(identities.values())
        self._codes: list[dict[str, int]] = [{} for _ in range(_FIELDS)]
        rows = [
            [codes.setdefault(v, len(codes)) for codes, v in zip(self._codes, _values(identity), strict=True)]
            for identity in self._identities
        ]
        self._matrix = np.array(rows, dtype=np.int32).reshape(len(rows), _FIELDS)
        self._digests: dict[str, str] = {}
        self._fits: dict[str, MixFit | MixRefusal] = {}

    def profiles(self, identity: Identity) -> tuple[Profile, ...]:
        """The profiles of exactly this identity (one per workload); empty where there is none."""
        return self._by_key.get(identity.key, ())

    def quantizations(self, identity: Identity) -> tuple[Quantization, ...]:
        """The quantizations that the catalog holds for the rest of this identity."""
        return tuple(sorted(self._quantizations.get(_open_key(identity), ())))

    def nearest(self, identity: Identity) -> tuple[Identity, tuple[str, ...]] | None:
        """The identity that differs least, with its differing fields; None for an empty catalog."""
        if not self._identities:
            return None
        wanted = np.array([codes.get(v, -1) for codes, v in zip(self._codes, _values(identity), strict=True)])
        differs = self._matrix != wanted
        if identity.quantization is None:
            differs[:, 4] = False
        found = self._identities[int(np.argmin(differs @ _WEIGHTS))]
        return found, differing_fields(identity, found)

    def digest(self, profile: Profile) -> str:
        """`profile_digest`, computed once per profile."""
        key = profile.key
        known = self._digests.get(key)
        if known is None:
            known = self._digests[key] = profile_digest(profile)
        return known

    def fit(self, profile: Profile) -> MixFit | MixRefusal:
        """The fit over the workloads of the profile's identity that come from its tool and image, computed once."""
        key = profile.key
        known = self._fits.get(key)
        if known is None:
            others = [p for p in self.profiles(profile.identity) if p is not profile and p.family == profile.family]
            known = self._fits[key] = fit_profiles([profile, *others])
        return known


def _open_key(identity: Identity) -> str:
    return msgspec.structs.replace(identity, quantization=None).key


def _values(identity: Identity) -> list[str]:
    quantization = identity.quantization.value if identity.quantization else ""
    head = [identity.model.lower(), identity.role.value, identity.hardware, identity.engine.value, quantization]
    return head + [str(getattr(identity.parallel, degree)) for degree in DEGREES]
