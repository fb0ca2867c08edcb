"""How one API server is reached: address, proxy, TLS, and credentials that stay fresh.

Promised: `headers()` never returns credentials older than `REFRESH_SECONDS` when their source can still be read (a
projected ServiceAccount token is rotated at 80 % of its life, and clouds issue them for an hour); after a 401 the
source is read again once (`reject`). A source that fails keeps the last good credentials in use and is asked again a
little later. One that is slow is asked in the background: requests go on with the credentials that they have, unless
there are none yet or the server has refused them. Changed CA or client certificate files give a new TLS context, which
new connections use.

Not promised: that a removed CA is distrusted on connections that are open already.
Cancellation of `headers()` leaves the old credentials in place, and a refresh under way going on; `close` ends it.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog

from controller.foundation import MdscalerError, UsageError, monotonic
from controller.kube.errors import KubeError

# Kubelets write a rotated token long before the old one dies; one minute is what client-go uses too.
REFRESH_SECONDS = 60.0
# After a failed or rejected reload: soon enough for a person who is repairing it, no stampede of exec plugins.
RETRY_SECONDS = 5.0
# An exec plugin that waits for a browser must not hang a controller.
LOAD_TIMEOUT_SECONDS = 60.0
# How long requests wait for fresher credentials while the old ones are not known to be bad: a file is read at once, a
# plugin may hang because its cloud is down, and a renewal of the lease has five seconds in all.
PATIENCE_SECONDS = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the parts of a TLS context are. `verify` False accepts any certificate (insecure-skip-tls-verify)."""

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    relax_x509_strict: bool = False


@dataclass(frozen=True, slots=True)
class Credentials:
    """What proves who we are: request headers (repr hides them) and TLS files."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: TlsFiles = TlsFiles()


class CredentialSource(Protocol):
    """Where credentials come from; called at most once at a time."""

    async def load(self, *, rejected: bool) -> Credentials:
        """Current credentials; `rejected` says that the server refused the last ones, so caches must be skipped."""
        ...


class Connection:
    """One API server and the way to it. Made by `load_connection`, or by hand in tests."""

    def __init__(
        self,
        server: str,
        *,
        source: CredentialSource | None = None,
        credentials: Credentials | None = None,
        proxy: str | None = None,
        server_hostname: str | None = None,
        namespace: str = "default",
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.server = server.rstrip("/")
        self.proxy = proxy
        self.server_hostname = server_hostname
        self.namespace = namespace
        self._source = source
        self._credentials = credentials or Credentials()
        self._now = now
        self._fresh_until = float("-inf") if source else float("inf")
        self._loaded_at = float("-inf")
        self._usable = credentials is not None or source is None  # there are some, and nobody has refused them
        self._rejected = False  # tell the source at the next load
        self._reloading: asyncio.Task[None] | None = None
        self._patient_until = float("-inf")
        self._tls_digest = b""
        self._tls_context: ssl.SSLContext | None = None
        self._update_tls()

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context for new connections; None for a plain HTTP server. Replaced when its files change."""
        return self._tls_context

    async def headers(self) -> Mapping[str, str]:
        """Request headers with fresh credentials. The mapping's identity names the credentials for `reject`."""
        if self._source is not None and self._now() >= self._fresh_until:
            await self._refresh(self._source)
        return self._credentials.headers

    async def close(self) -> None:
        """End a refresh that is under way."""
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait((self._reloading,))
            self._reloading = None

    async def _refresh(self, source: CredentialSource) -> None:
        now = asyncio.get_running_loop().time
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload(source), name="refresh of credentials")
            self._patient_until = now() + PATIENCE_SECONDS
        reloading = self._reloading
        if not self._usable:
            await asyncio.wait((reloading,))
        elif (patience := self._patient_until - now()) > 0:
            await asyncio.wait((reloading,), timeout=patience)
        if reloading.done():
            reloading.result()

    def reject(self, headers: Mapping[str, str]) -> bool:
        """The server answered 401 to these headers. True when asking again makes sense: newer ones are or will be
        there.

        Ten requests in flight with one dead token cause one reload, and a token that was loaded a moment ago is not
        loaded again at once.
        """
        if headers is not self._credentials.headers:
            return True
        if self._source is None or self._now() - self._loaded_at < RETRY_SECONDS:
            return False
        self._rejected = True
        self._usable = False
        self._fresh_until = float("-inf")
        return True

    async def _reload(self, source: CredentialSource) -> None:
        rejected, self._rejected = self._rejected, False
        fresh_seconds = REFRESH_SECONDS
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_SECONDS):
                loaded = await source.load(rejected=rejected)
            if loaded != self._credentials:
                self._credentials = loaded
            self._update_tls()
        except (MdscalerError, KubeError, OSError, TimeoutError, ValueError) as failure:
            fresh_seconds = RETRY_SECONDS
            _log.warning("credentials could not be refreshed; the last ones stay in use", reason=_reason_of(failure))
        self._loaded_at = self._now()
        # Whatever was loaded is what there is: refused once more, it is asked for once more.
        self._usable = True
        if not self._rejected:
            self._fresh_until = self._loaded_at + fresh_seconds

    def _update_tls(self) -> None:
        if not self.server.startswith("https://"):
            return
        tls = self._credentials.tls
        digest = _digest(tls)
        if digest != self._tls_digest:
            self._tls_context = make_tls_context(tls)
            self._tls_digest = digest


def make_tls_context(tls: TlsFiles) -> ssl.SSLContext:
    """A client context of these files. Raises UsageError naming the file that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except (OSError, ValueError) as failure:
        raise UsageError(f"certificate authority {tls.ca_file} cannot be used: {failure}") from None
    context.set_alpn_protocols(["http/1.1"])
    if tls.certificate_file:
        try:
            context.load_cert_chain(tls.certificate_file, keyfile=tls.key_file, password=_no_password)
        except (OSError, ValueError) as failure:
            raise UsageError(f"client certificate {tls.certificate_file} cannot be used: {failure}") from None
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.relax_x509_strict:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _no_password() -> str:
    # Without this OpenSSL would ask on the terminal and block the whole process.
    raise ValueError("the key is encrypted; give an unencrypted one")


def _digest(tls: TlsFiles) -> bytes:
    digest = hashlib.sha256(repr(tls).encode())
    for name in (tls.ca_file, tls.certificate_file, tls.key_file):
        if name:
            try:
                digest.update(Path(name).read_bytes())
            except OSError as failure:
                raise UsageError(f"{name} cannot be read: {failure.strerror or failure}") from None
    return digest.digest()


def _reason_of(failure: BaseException) -> str:
    if isinstance(failure, TimeoutError):
        return f"their source did not answer within {LOAD_TIMEOUT_SECONDS:g} s"
    return " ".join((str(failure) or type(failure).__name__).split())[:300]
