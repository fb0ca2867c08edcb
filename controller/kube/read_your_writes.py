"""Acting only on a cache that shows what we did before.

A controller that writes and is woken by something else may still see the object as it was before its write, and do it
again. So each write notes the resourceVersion it got, per owner (the object that is reconciled) and resource; a
reconcile first asks `lag`, and is put back into the queue while a store has not reached it. resourceVersions are
compared as numbers per resource, which is official since Kubernetes 1.35 (KEP-5504; the pattern is KEP-5647).

Fails open: a version that is no number, a resource without a registered store, and an owner without a record never hold
anything up. A write that changes nothing returns the old version, so it never waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from controller.foundation import Resource
from controller.kube.versions import is_older, parse_version

# How soon to look again, wall time: a watch event is normally there within milliseconds. Each look in a row waits twice
# as long, up to the second figure: a watch that stands still must not keep this process or the API server busy.
_FIRST_LOOK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 5.0
# Looks in a row, some 13 s of them, after which a cache that lags behind is worth a line in the log; and some five
# minutes, after which it is not waited for: a watch that stands still has been cut long before, so the server itself
# went back in time (a restored etcd). Who goes on then must be safe on any cache.
LAG_WORTH_TELLING = 9
LAG_GIVEN_UP = 66

# (namespace) → the version that the store has reached for it; `Informer.resource_version` fits.
StoreVersion = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Lag:
    """Why an owner has to wait: this store is at `seen`, our own write made `written`."""

    resource: Resource
    namespace: str
    written: str
    seen: str


def look_again_seconds(looks: int) -> float:
    """The wait after so many looks in a row (at least 1) that could not go on."""
    return min(_FIRST_LOOK_SECONDS * 2.0 ** min(looks - 1, 10), _LONGEST_LOOK_SECONDS)


@dataclass(slots=True)
class _Record:
    uid: str
    written: dict[tuple[Resource, str], str] = field(default_factory=dict)


class ConsistencyStore:
    """The highest version that we wrote, per owner, resource and namespace."""

    def __init__(self) -> None:
        self._stores: dict[Resource, StoreVersion] = {}
        self._records: dict[str, _Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def register(self, resource: Resource, store_version: StoreVersion) -> None:
        """The store of this resource. Without it, writes to the resource are not waited for."""
        self._stores[resource] = store_version

    def wrote(self, owner: str, owner_uid: str, resource: Resource, namespace: str, version: str) -> None:
        """An owner's reconcile wrote an object, and the answer carried this resourceVersion.

        Another uid under the same key is another owner: the old record goes.
        """
        if parse_version(version) is None:
            return
        record = self._records.get(owner)
        if record is None or record.uid != owner_uid:
            record = self._records[owner] = _Record(owner_uid)
        known = record.written.get((resource, namespace), "")
        if not known or is_older(known, version):
            record.written[resource, namespace] = version

    def lag(self, owner: str) -> Lag | None:
        """The first write of this owner that its store does not show yet; None when a reconcile may run."""
        record = self._records.get(owner)
        if record is None:
            return None
        for (resource, namespace), written in list(record.written.items()):
            store_version = self._stores.get(resource)
            if store_version is None:
                continue
            seen = store_version(namespace)
            if is_older(seen, written):
                return Lag(resource, namespace, written, seen)
            if parse_version(seen) is not None:
                del record.written[resource, namespace]  # reached once, reached for ever
        if not record.written:
            del self._records[owner]
        return None

    def ready(self, owner: str) -> bool:
        """Whether the caches show everything that this owner's reconciles wrote."""
        return self.lag(owner) is None

    def forget(self, owner: str, owner_uid: str) -> None:
        """The owner was deleted. A record of another uid stays."""
        record = self._records.get(owner)
        if record is not None and record.uid == owner_uid:
            del self._records[owner]
