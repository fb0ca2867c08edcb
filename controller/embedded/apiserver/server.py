"""The embedded API server: one object, one port, one process, no threads.

It speaks the Kubernetes API over HTTP (or TLS) well enough for kubectl, client-go and this project's own client, and it
is deterministic apart from the clock and the random source that it is given. All state is in memory and bounded except
for the objects themselves. `start` returns when the port is open; `stop` ends every watch cleanly and closes the port;
both may be called once.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import logging
import os
import random
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientConnectionResetError, web

from controller.embedded.apiserver.access import ADMIN, ANONYMOUS, Access
from controller.embedded.apiserver.builtins import install_builtins
from controller.embedded.apiserver.definitions import Definitions
from controller.embedded.apiserver.deletion import DeleteOptions, delete_now
from controller.embedded.apiserver.documents import Documents
from controller.embedded.apiserver.errors import ApiError, Object, internal
from controller.embedded.apiserver.expiry import Expiry
from controller.embedded.apiserver.faults import (
    Action,
    Delay,
    Drop,
    FaultPlan,
    LoseResponse,
    Reset,
    Respond,
    Stall,
)
from controller.embedded.apiserver.garbage import Garbage
from controller.embedded.apiserver.handlers import ResourceHandler
from controller.embedded.apiserver.kubeconfig import kubeconfig, write_kubeconfig
from controller.embedded.apiserver.negotiation import render_error, warning_header
from controller.embedded.apiserver.operations import Operations
from controller.embedded.apiserver.rbac import Rbac, User, bootstrap_objects
from controller.embedded.apiserver.reads import Reads, Settings
from controller.embedded.apiserver.requests import RequestInfo, WriteOptions, parse_request
from controller.embedded.apiserver.resources import Registry, ServedVersion
from controller.embedded.apiserver.storage import Change, Store, storage_key
from controller.embedded.apiserver.streams import drop, stall
from controller.embedded.apiserver.targets import Target
from controller.embedded.apiserver.webhooks import ResolveService, Webhooks
from controller.embedded.apiserver.workqueue import WorkQueue
from controller.embedded.httpserver import CLIENT_GONE
from controller.foundation import Clock, OperationFailed, Resource

_LOG = logging.getLogger(__name__)
# The real server refuses larger bodies with 413 (control-plane.md §5).
MAX_BODY_BYTES = 3 * 1024 * 1024
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
# How long requests that are under way may take once the server stops; watches are ended before.
_SHUTDOWN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One line of the request log. `status` is 0 for a request that got no answer; `rule` is the RBAC rule that let it
    pass, as (role, index), where RBAC decided."""

    info: RequestInfo
    user: str
    status: int
    rule: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """One stored version of an object: what happened, and the object then."""

    change: Change
    resource_version: int
    object: Object


class ApiServer:
    """An in-process Kubernetes API server.

    * `clock` stamps objects (model time), except for Leases and Events (wall time).
    * `tokens` maps bearer tokens to users (None as the user: the administrator). Without a token a request is
      anonymous; with `anonymous=False` that is enough for health and version only.
    * `history_limit` is how many events each resource keeps; older watches get 410.
    * `rbac` lets the stored roles decide what each user may do; without it every known user may do everything.
    * `resolve_service` says where the Services of admission webhooks really listen.
    * `garbage_collection` deletes dependants after their owners and honours propagation policies.
    * `create_namespaces` makes a missing namespace on first use instead of answering 404.
    * `seed` makes UIDs and generated names repeat.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        tokens: Mapping[str, User | None] | None = None,
        anonymous: bool = True,
        bookmark_interval_seconds: float = 60.0,
        future_wait_seconds: float = 3.0,
        history_limit: int = 2048,
        faults: FaultPlan | None = None,
        create_namespaces: bool = False,
        rbac: bool = False,
        resolve_service: ResolveService | None = None,
        garbage_collection: bool = False,
        request_log_limit: int = 10_000,
        seed: int | None = None,
    ) -> None:
        rng = random.Random(seed)
        self.faults = faults if faults is not None else FaultPlan()
        self.requests: deque[RequestRecord] = deque(maxlen=request_log_limit)
        self.store = Store(history_limit)
        self.registry = Registry()
        install_builtins(self.registry)
        known = {token: user or ADMIN for token, user in (tokens or {}).items()}
        self.access = Access(self.store, rng, known, anonymous, Rbac(self.store) if rbac else None)
        self._webhooks = Webhooks(self.store, rng, resolve_service)
        self.operations = Operations(
            self.store, clock, rng, self._webhooks, self.access, garbage_collection, create_namespaces
        )
        self._work = WorkQueue()
        Garbage(self.operations, self.registry, self._work).start()
        events = self.store.collection(("", "events"))
        self._expiry = Expiry(events)
        events.listeners[self] = self._expiry.observe
        settings = Settings(bookmark_interval_seconds, future_wait_seconds)
        self._reads = Reads(self.store, clock, rng, settings)
        self._handler = ResourceHandler(self.store, self.registry, self.operations, clock, self.access, self._reads)
        self._documents = Documents(self.registry)
        self._runner: web.ServerRunner | None = None
        self._url = ""
        self._authority = b""
        Definitions(self.operations, self.registry, self._work, self._reads.end_watches).start()
        for name in _NAMESPACES:
            self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for obj in bootstrap_objects() if rbac else ():
            self.put(obj)

    # -- life ------------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where it listens; empty before `start`."""
        return self._url

    async def start(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
        certificate_authority: bytes = b"",
    ) -> None:
        """Open the port; 0 picks a free one. Raises OperationFailed where that is not possible.

        `certificate_authority` (PEM) goes into the kubeconfig of a TLS server.
        """
        server = web.Server(self._serve, handler_cancellation=True, request_factory=_request)
        runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS, handle_signals=False)
        await runner.setup()
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise OperationFailed(_cannot_listen(host, port, error)) from None
        self._runner = runner
        self._work.drain()
        self._expiry.start()
        bound = runner.addresses[0]
        self._authority = certificate_authority
        self._url = f"{'https' if tls else 'http'}://{host}:{bound[1]}"

    async def stop(self) -> None:
        """End every watch, then close the port and the connections."""
        self._expiry.stop()
        self._reads.end_watches()
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()
        await self._webhooks.close()

    def end_watches(self) -> None:
        """End every watch that is open, as a restart of the real server does."""
        self._reads.end_watches()

    def write_kubeconfig(self, path: str | os.PathLike[str], *, token: str = "", namespace: str = "default") -> Path:
        """Write a kubeconfig for this server; only after `start`."""
        content = kubeconfig(self._url, token=token, certificate_authority=self._authority, namespace=namespace)
        return write_kubeconfig(path, content)

    # -- fixtures --------------------------------------------------------------------------------------------------

    def install_crd(self, crd: Object) -> None:
        """Create or replace a CustomResourceDefinition; its versions are served when this returns."""
        self.put(crd)

    def put(self, obj: Object, *, manager: str = "fixture") -> Object:
        """Create or replace an object whole, status included, and return it as stored. Raises ApiError.

        It is pruned, defaulted and validated like any write, and needs no resourceVersion."""
        served = self._served(str(obj.get("apiVersion")), str(obj.get("kind")))
        metadata = dict(obj.get("metadata") or {})
        metadata.pop("resourceVersion", None)
        namespace = str(metadata.get("namespace") or "default") if served.type.namespaced else ""
        target = Target(served, namespace, str(metadata.get("name", "")))
        options = WriteOptions(manager=manager, explicit_manager=True, field_validation="Ignore")
        body = {**obj, "metadata": metadata}
        if self.store.of(served).get(target.key) is None:
            return self.operations.create_now(target, body, options).object
        return self.operations.replace_now(target, body, options).object

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Object | None:
        """A private copy of an object as `resource` shows it, None where it does not exist."""
        served, key = self._place(resource, name, namespace)
        stored = self.store.of(served).get(key)
        return None if stored is None else served.view(stored.copy())

    def list(self, resource: Resource, namespace: str = "") -> builtins.list[Object]:
        """Private copies of all objects of a namespace (or of all)."""
        served, _ = self._place(resource, "", namespace)
        return [served.view(stored.copy()) for stored in self.store.of(served).scan(namespace)]

    def delete(self, resource: Resource, name: str, namespace: str = "default", *, grace_seconds: int = 0) -> None:
        """Delete an object; finalizers hold it as ever. Raises ApiError 404 where it does not exist."""
        served, key = self._place(resource, name, namespace)
        target = Target(served, namespace if served.type.namespaced else "", name)
        stored = self.store.of(served).get(key)
        if stored is None:
            raise target.not_found()
        delete_now(self.operations, target, stored, DeleteOptions(grace_seconds=grace_seconds))

    def service_account_token(self, name: str, namespace: str = "default", *, seconds: int = 3600) -> str:
        """A bearer token for a ServiceAccount. Raises ApiError 404 where there is none."""
        return self.access.issue(namespace, name, seconds)[0]

    def history(self, resource: Resource, name: str, namespace: str = "default") -> builtins.list[Version]:
        """Every stored version of one object (of all that ever had the name), oldest first.

        Raises OperationFailed when the beginning has been dropped from the log."""
        served, key = self._place(resource, name, namespace)
        collection = self.store.of(served)
        events = [event for event in collection.log() if event.current.key == key]
        if collection.floor and (not events or events[0].change is not Change.ADDED):
            raise OperationFailed(
                f"the first versions of {resource.plural} {key!r} are no longer kept: raise history_limit"
            )
        return [Version(event.change, event.resource_version, served.view(event.current.copy())) for event in events]

    def _place(self, resource: Resource, name: str, namespace: str) -> tuple[ServedVersion, str]:
        served = self.registry.find(resource.group, resource.version, resource.plural)
        if served is None:
            raise OperationFailed(f"{resource.plural} of {resource.api_version} is not served: install its CRD first")
        return served, storage_key(namespace if served.type.namespaced else "", name)

    def _served(self, api_version: str, kind: str) -> ServedVersion:
        served = self.registry.for_kind(api_version, kind)
        if served is None:
            raise OperationFailed(f"{kind} of {api_version} is not served: install its CRD first")
        return served

    # -- requests --------------------------------------------------------------------------------------------------

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        agent = request.headers.get("User-Agent", "")
        info = parse_request(request.method, request.rel_url.raw_path, request.query, agent)
        actions = self.faults.consult(info)
        user = ANONYMOUS
        status = 0
        rule: tuple[str, int] | None = None
        try:
            scripted = await self._disturb(request, actions)
            if scripted is not None:
                status = scripted.status
                return scripted
            user = self.access.authenticate(request.headers.get("Authorization", ""))
            user = self.access.impersonate(user, request.headers, request.headers.getall("Impersonate-Group", []))
            rule = self.access.authorize(user, info).rule
            if info.verb == "watch":
                self.requests.append(RequestRecord(info, user.name, 200, rule))
            response: web.StreamResponse = (
                await self._handler.handle(request, info, user, actions)
                if info.is_resource
                else self._documents.handle(request)
            )
            if any(isinstance(action, LoseResponse) for action in actions):
                await drop(request)
            status = response.status
        except ApiError as error:
            status = error.code
            return _failed(error)
        except ClientConnectionResetError:
            # Noticed while writing, in the turn of the loop in which the client closed: an end like any other.
            status = 200
            return web.Response(status=CLIENT_GONE)
        except Exception:  # noqa: BLE001  # a server outlives any request; the client learns that it is not its fault
            _LOG.exception("%s %s failed", request.method, request.path)
            status = 500
            return _failed(internal("the embedded API server failed on this request; its log has the traceback"))
        else:
            return response
        finally:
            if info.verb != "watch" or status != 200:
                self.requests.append(RequestRecord(info, user.name, status, rule))

    async def _disturb(self, request: web.BaseRequest, actions: Sequence[Action]) -> web.Response | None:
        """Play the faults that come before the verb; a scripted answer is returned."""
        for action in actions:
            if isinstance(action, Delay):
                await asyncio.sleep(action.seconds)
            elif isinstance(action, Drop | Reset):
                await drop(request, reset=isinstance(action, Reset))
            elif isinstance(action, Stall):
                await stall()
            elif isinstance(action, Respond):
                return web.Response(
                    body=action.body,
                    status=action.status,
                    content_type=action.content_type,
                    headers=dict(action.headers),
                )
        return None


def _failed(error: ApiError) -> web.Response:
    response = web.Response(
        body=render_error(error), status=error.code, content_type="application/json", headers=error.headers
    )
    for text in error.warnings:
        response.headers.add("Warning", warning_header(text))
    return response


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    """aiohttp's own factory with our limit for bodies."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES)


def _cannot_listen(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"cannot listen on {host}:{port}: the port is in use; choose another one (0 picks a free port) or end the "
            "process that holds it"
        )
    return f"cannot listen on {host}:{port}: {os.strerror(error.errno) if error.errno else error}"
