"""Who a request comes from and whether it may pass: bearer tokens, ServiceAccount tokens, anonymous access, RBAC.

Without RBAC every known user may do everything, and so may anonymous users unless they are shut out. With RBAC the
stored roles decide for everybody.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.errors import GroupResource
from controller.embedded.apiserver.rbac import (
    AUTHENTICATED,
    MASTERS,
    SERVICE_ACCOUNT_PREFIX,
    UNAUTHENTICATED,
    Attributes,
    Decision,
    Rbac,
    User,
)
from controller.embedded.apiserver.requests import RequestInfo
from controller.embedded.apiserver.storage import Store, storage_key
from controller.foundation import wall_now

# Open to everybody on the real server, too.
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
# What a token without further description gets: the administrator of a cluster.
ADMIN = User("admin", (MASTERS, AUTHENTICATED))


@dataclass(frozen=True, slots=True)
class _Issued:
    """A ServiceAccount token: it lives as long as its account and no longer than asked for."""

    user: User
    key: str  # of the ServiceAccount
    expires: float  # wall time


@dataclass(slots=True)
class Access:
    """The gate in front of every request."""

    store: Store
    rng: random.Random
    tokens: Mapping[str, User]
    anonymous: bool
    rbac: Rbac | None = None
    _issued: dict[str, _Issued] = field(default_factory=dict)

    def authenticate(self, authorization: str) -> User:
        """The user of an Authorization header. Raises ApiError 401 for a token that nobody issued."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if not authorization or scheme.lower() != "bearer":
            return ANONYMOUS
        user = self.tokens.get(token) or self.service_account(token)
        if user is not None:
            return user
        if not self.tokens and self.anonymous and self.rbac is None:
            return ANONYMOUS  # a server that knows no tokens does not look at them
        raise errors.unauthorized()

    def issue(self, namespace: str, name: str, seconds: int) -> tuple[str, float]:
        """(token, expiry in wall time) for a ServiceAccount. Raises ApiError 404 where there is none."""
        key = storage_key(namespace, name)
        account = self.store.collection(("", "serviceaccounts")).get(key)
        if account is None:
            raise errors.not_found(GroupResource("", "serviceaccounts"), name)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        user = User(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", groups, account.uid)
        token = f"embedded-{self.rng.getrandbits(256):064x}"
        expires = wall_now() + seconds
        self._issued[token] = _Issued(user, key, expires)
        return token, expires

    def service_account(self, token: str) -> User | None:
        """The ServiceAccount that an issued token stands for, None once it has expired or the account is gone."""
        issued = self._issued.get(token)
        if issued is None:
            return None
        account = self.store.collection(("", "serviceaccounts")).get(issued.key)
        if account is None or account.uid != issued.user.uid or issued.expires < wall_now():
            del self._issued[token]
            return None
        return issued.user

    def impersonate(self, user: User, headers: Mapping[str, str], groups: list[str]) -> User:
        """The user that `kubectl --as` asks to be. Raises ApiError 403 where that is not allowed."""
        name = headers.get("Impersonate-User")
        if not name:
            return user
        if not self.decide(user, Attributes("impersonate", resource="users", name=name)).allowed:
            raise self._refusal(user, Attributes("impersonate", resource="users", name=name))
        if name.startswith(SERVICE_ACCOUNT_PREFIX) and not groups:
            namespace = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")[0]
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        return User(name, (*groups, AUTHENTICATED))

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Raises ApiError 403."""
        wanted = Attributes(
            info.verb,
            info.group,
            info.resource,
            info.subresource,
            info.namespace,
            info.name or info.selected,
            "" if info.is_resource else info.path,
        )
        return self.require(user, wanted)

    def require(self, user: User, wanted: Attributes) -> Decision:
        """Raises ApiError 403."""
        decision = self.decide(user, wanted)
        if not decision.allowed:
            raise self._refusal(user, wanted)
        return decision

    def decide(self, user: User, wanted: Attributes) -> Decision:
        """Whether `user` may do `wanted`."""
        if self.rbac is not None:
            return self.rbac.decide(user, wanted)
        open_to_all = bool(wanted.path) and wanted.path.startswith(_OPEN_PATHS)
        return Decision(user is not ANONYMOUS or self.anonymous or open_to_all)

    def _refusal(self, user: User, wanted: Attributes) -> errors.ApiError:
        if not wanted.resource:
            message = f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
            return errors.ApiError(403, "Forbidden", message, details={})
        scope = f' in the namespace "{wanted.namespace}"' if wanted.namespace else " at the cluster scope"
        what = f'resource "{wanted.qualified}" in API group "{wanted.group}"{scope}'
        message = f'User "{user.name}" cannot {wanted.verb} {what}'
        return errors.forbidden(GroupResource(wanted.group, wanted.resource), wanted.name, message)
