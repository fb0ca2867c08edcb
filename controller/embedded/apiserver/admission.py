"""Admission: what may change or refuse a write after it was read and before it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.rbac import User
from controller.embedded.apiserver.resources import ServedVersion


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One write as admission sees it. `obj` is None for DELETE, `old` for CREATE."""

    operation: str  # CREATE, UPDATE, DELETE
    served: ServedVersion
    user: User
    obj: Object | None
    old: Object | None
    subresource: str = ""
    dry_run: bool = False
    options: Object = field(default_factory=dict)  # those of the write, without their type members

    @property
    def subject(self) -> Object:
        """The object that the request is about: the new one, or the one to delete."""
        return self.obj if self.obj is not None else self.old or {}


class Admission(Protocol):
    """Asked once per write."""

    async def admit(self, request: AdmissionRequest, warnings: list[str]) -> Object:
        """The object to store, `request.obj` itself where nothing changes (the old object for DELETE). Raises ApiError
        to refuse; texts for the client go to `warnings`."""
        ...
