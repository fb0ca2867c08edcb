"""Who a request comes from and what that user may do: bearer tokens and anonymous access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.errors import GroupResource
from controller.embedded.apiserver.requests import RequestInfo

AUTHENTICATED_GROUP = "system:authenticated"
# Open to everybody on the real server, too.
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated (or anonymous) user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
# What a token without further description gets: the administrator of a cluster.
ADMIN = User("admin", ("system:masters", AUTHENTICATED_GROUP))


@dataclass(slots=True)
class Access:
    """Authentication by bearer token, and the gate in front of every request."""

    tokens: Mapping[str, User]
    anonymous: bool

    def authenticate(self, authorization: str) -> User:
        """The user of an Authorization header. Raises ApiError 401 for a token that nobody issued."""
        scheme, _, token = authorization.partition(" ")
        if not authorization or scheme.lower() != "bearer":
            return ANONYMOUS
        user = self.tokens.get(token.strip())
        if user is not None:
            return user
        if not self.tokens and self.anonymous:
            return ANONYMOUS  # a server that knows no tokens does not look at them
        raise errors.unauthorized()

    def authorize(self, user: User, info: RequestInfo) -> None:
        """Raises ApiError 403."""
        if user is not ANONYMOUS or self.anonymous:
            return
        if not info.is_resource:
            if not info.path.startswith(_OPEN_PATHS):
                message = f'forbidden: User "{user.name}" cannot {info.verb} path "{info.path}"'
                raise errors.ApiError(403, "Forbidden", message, details={})
            return
        resource = GroupResource(info.group, info.resource)
        scope = f' in the namespace "{info.namespace}"' if info.namespace else " at the cluster scope"
        name = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        message = f'User "{user.name}" cannot {info.verb} resource "{name}" in API group "{info.group}"{scope}'
        raise errors.forbidden(resource, info.name, message)
