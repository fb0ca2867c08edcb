"""What a write is about (`Target`), what it is on its way to the store (`Draft`), and what it came to (`Outcome`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.access import ANONYMOUS
from controller.embedded.apiserver.errors import GroupResource, Object
from controller.embedded.apiserver.rbac import User
from controller.embedded.apiserver.requests import WriteOptions
from controller.embedded.apiserver.resources import ServedVersion
from controller.embedded.apiserver.storage import Stored, storage_key


@dataclass(frozen=True, slots=True)
class Target:
    """Where a write goes and whose it is."""

    served: ServedVersion
    namespace: str
    name: str
    subresource: str = ""
    user: User = ANONYMOUS

    @property
    def key(self) -> str:
        return storage_key(self.namespace, self.name)

    @property
    def resource(self) -> GroupResource:
        return self.served.type.resource

    def not_found(self) -> errors.ApiError:
        return errors.not_found(self.resource, self.name)

    def need_name(self, metadata: Object) -> None:
        """Raises ApiError 400 for a body that does not say its own name."""
        if not metadata.get("name"):
            raise errors.bad_request(
                f"the name of the object ({self.name} based on URL) was undeterminable: name must be provided"
            )

    def place(self, metadata: Object) -> None:
        """Bring name and namespace of a body in line with the path. Raises ApiError 400 where they contradict it."""
        name = metadata.get("name")
        if self.name and name not in (None, "", self.name):
            raise errors.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({self.name})"
            )
        if self.name:
            metadata["name"] = self.name
        if not self.served.type.namespaced:
            metadata.pop("namespace", None)
            return
        namespace = metadata.get("namespace")
        if namespace not in (None, "", self.namespace):
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = self.namespace


@dataclass(slots=True)
class Draft:
    """A candidate for the store, in the version of the request. `stored` is what it was made from, None on create."""

    target: Target
    options: WriteOptions
    object: Object
    stored: Stored | None = None
    implied: bool = False  # made by an update or an apply, which was not authorized as a create
    warnings: list[str] = field(default_factory=list)

    @property
    def current(self) -> Object | None:
        """What is stored, in the version of the request; shared, not to be changed."""
        return None if self.stored is None else self.target.served.view(self.stored.object)

    def report_unknown(self, unknown: list[str], *, patched: bool) -> None:
        """Unknown fields as the request wants them reported: not at all, as warnings, or as a failure."""
        if not unknown or self.options.field_validation == "Ignore":
            return
        texts = [f'unknown field "{path}"' for path in unknown]
        if self.options.field_validation == "Warn":
            self.warnings += texts
            return
        raise strict_error(self.target, texts, patched=patched)


def strict_error(target: Target, texts: list[str], *, patched: bool) -> errors.ApiError:
    """The failure of strict field validation: 400 for a body, 422 at `patch` for a patch."""
    problem = f"strict decoding error: {', '.join(texts)}"
    served = target.served
    kind = served.type.kind
    if patched:
        return errors.unreadable_patch(problem)
    return errors.bad_request(f'{kind} in version "{served.version}" cannot be handled as a {kind}: {problem}')


@dataclass(slots=True)
class Outcome:
    """What a write came to. `object` is in the version of the request; `removed` after a deletion that is complete."""

    object: Object
    created: bool = False
    removed: bool = False
    warnings: list[str] = field(default_factory=list)


def copied(body: Any) -> Any:
    """A private copy of JSON values; encoding and parsing is the fastest deep copy there is."""
    return orjson.loads(orjson.dumps(body))


def view_copy(served: ServedVersion, stored: Stored) -> Object:
    """A private copy of a stored object as `served` shows it."""
    found: Object = stored.copy()
    if served.from_storage is not None:
        return served.from_storage(found)
    found["apiVersion"] = served.api_version
    return found
