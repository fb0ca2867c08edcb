"""Who would still send a request to a replica: EndpointSlices and routers, asked live, never a cache.

A `Withdrawal` answers for a set of Pods with one `Sighting`. Only GONE lets a retirement go on; what cannot be asked is
UNKNOWN, with a reason for the person on call. Several of them are asked together by `AllOf`: all must say GONE.

Nothing here raises for a source that fails; cancellation passes through.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from controller.api import ENDPOINT_SLICES, ROUTER_PORT, SERVICES, SERVING_PORT_NAME, ModelDeployment, Pod
from controller.deployment.kinds import SERVICE_NAME_LABEL, EndpointSlice, Service
from controller.deployment.retirement import Listing
from controller.deployment.serving import RouterView
from controller.kube import ApiError, KubeClient, NotFound

# Wall time for one router; it answers from memory.
ROUTER_TIMEOUT_SECONDS: Final = 2.0
_MAX_ROUTER_BYTES: Final = 1024 * 1024
_MAX_SHOWN: Final = 120
# SGLang's router tells data-parallel ranks of one server apart by a suffix: `http://10.0.0.1:8000@3`.
_RANK: Final = re.compile(r"@\d+(?=/?$)")
OBSERVER_PATH: Final = "/observer/endpoints"


@dataclass(frozen=True, slots=True)
class Sighting:
    """Whether the Pods are still listed, why in words, and how many of their answers are under way (as far as that is
    known; what a router passes on may not have reached the engine yet)."""

    listing: Listing
    note: str = ""
    in_flight: int = 0


NOT_LISTED: Final = Sighting(Listing.GONE)


class Withdrawal(Protocol):
    """Somebody who knows who is sent requests."""

    async def look(self, deployment: ModelDeployment, members: Sequence[Pod]) -> Sighting:
        """Whether any of these Pods would still get a request."""
        ...


class AllOf:
    """All of them, asked at once; the first that does not say GONE speaks for all."""

    def __init__(self, sources: Iterable[Withdrawal]) -> None:
        self._sources = tuple(sources)

    async def look(self, deployment: ModelDeployment, members: Sequence[Pod]) -> Sighting:
        sightings = await asyncio.gather(*(source.look(deployment, members) for source in self._sources))
        in_flight = sum(sighting.in_flight for sighting in sightings)
        for listing in (Listing.LISTED, Listing.UNKNOWN):
            for sighting in sightings:
                if sighting.listing is listing:
                    return Sighting(listing, sighting.note, in_flight)
        return Sighting(Listing.GONE, "", in_flight)


class EndpointSlices:
    """The EndpointSlices of the namespace, of any Service.

    A Service that publishes addresses that are not Ready is there for Pods to find each other (our own headless ones,
    for instance), and does not count. Any other one does, also a person's own: to be withdrawn from it, its selector
    must ask for the eligibility label.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def look(self, deployment: ModelDeployment, members: Sequence[Pod]) -> Sighting:
        namespace = deployment.metadata.namespace
        try:
            slices = await self._client.list(ENDPOINT_SLICES, namespace, type_=EndpointSlice)
            for listed in slices.items:
                found = next((pod for pod in members if _lists(listed, pod)), None)
                if found is None:
                    continue
                service = await self._service(listed, namespace)
                if service is None or not service.for_peers:
                    name = listed.metadata.label(SERVICE_NAME_LABEL) or listed.metadata.name
                    return Sighting(
                        Listing.LISTED,
                        f"Service {name} still lists {found.metadata.name} (EndpointSlice {listed.metadata.name})",
                    )
        except ApiError as failure:
            return Sighting(Listing.UNKNOWN, f"EndpointSlices cannot be read: {failure}")
        return NOT_LISTED

    async def _service(self, listed: EndpointSlice, namespace: str) -> Service | None:
        name = listed.metadata.label(SERVICE_NAME_LABEL)
        if not name:
            return None
        try:
            return await self._client.get(SERVICES, name, namespace, type_=Service)
        except NotFound:
            return None  # its slices go with it, and until then they count


class _Worker(msgspec.Struct):
    url: str
    # Told by routers that keep a member in view until its last answer has ended.
    eligible: bool = True
    in_flight: int = msgspec.field(default=0, name="inFlight")


class _View(msgspec.Struct):
    workers: list[_Worker]


_VIEW = msgspec.json.Decoder(_View)


class RouterViews:
    """What the routers hold, by `GET /observer/endpoints` of each of them: every one must answer.

    `urls` gives the addresses (`http://host:port`) of the routers of a deployment. A member that a router lists as not
    eligible gets nothing new; its answers under way are counted. A worker whose URL does not hold an address may be any
    Pod, and a router that is declared and not there may be one that is about to be replaced: both are UNKNOWN.
    """

    def __init__(
        self,
        urls: Callable[[ModelDeployment], Sequence[str]],
        *,
        timeout_seconds: float = ROUTER_TIMEOUT_SECONDS,
    ) -> None:
        self._urls = urls
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections. The next look opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def views(self, deployment: ModelDeployment, members: Sequence[Pod]) -> list[RouterView]:
        """Which of these Pods each router would send a request to."""
        uids = {address: pod.metadata.uid for pod in members for address in _addresses(pod)}
        found: list[RouterView] = []
        for _, view in await self._ask(deployment):
            if isinstance(view, str):
                found.append(RouterView(None))
                continue
            hosts = {_host(worker.url) for worker in view.workers if worker.eligible}
            if "" in hosts:
                found.append(RouterView(None))
                continue
            found.append(RouterView(frozenset(uid for address, uid in uids.items() if address in hosts)))
        return found

    async def look(self, deployment: ModelDeployment, members: Sequence[Pod]) -> Sighting:
        addresses = {address: pod.metadata.name for pod in members for address in _addresses(pod)}
        views = await self._ask(deployment)
        router = deployment.spec.router
        if router is not None and not views:
            return Sighting(
                Listing.UNKNOWN,
                f"no Pod of router {router.name} is there to be asked what it holds: run one with its labels, or "
                "remove spec.router",
            )
        in_flight = 0
        unknown = ""
        for url, view in views:
            if isinstance(view, str):
                unknown = f"router {url} does not say what it holds: {view}"
                continue
            for worker in view.workers:
                host = _host(worker.url)
                name = addresses.get(host)
                if not host and worker.eligible:
                    unknown = f"router {url} holds {worker.url[:_MAX_SHOWN]!r}, which does not tell whose address it is"
                if name is None:
                    continue
                in_flight += worker.in_flight
                if worker.eligible:
                    return Sighting(Listing.LISTED, f"router {url} still holds {name}", in_flight)
        return Sighting(Listing.UNKNOWN, unknown, in_flight) if unknown else Sighting(Listing.GONE, "", in_flight)

    async def _ask(self, deployment: ModelDeployment) -> list[tuple[str, _View | str]]:
        return await asyncio.gather(*(self._view(url) for url in self._urls(deployment)))

    async def _view(self, url: str) -> tuple[str, _View | str]:
        try:
            async with self._open().get(f"{url}{OBSERVER_PATH}", allow_redirects=False) as answer:
                if answer.status != 200:
                    return url, f"HTTP {answer.status}"
                body = await answer.content.read(_MAX_ROUTER_BYTES + 1)
                while len(body) <= _MAX_ROUTER_BYTES and (more := await answer.content.read(_MAX_ROUTER_BYTES)):
                    body += more
            if len(body) > _MAX_ROUTER_BYTES:
                return url, "its answer is too large"
            return url, _VIEW.decode(body)
        except msgspec.DecodeError:
            return url, "its answer is no list of workers"
        except TimeoutError:
            return url, "no answer in time"
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            return url, f"no answer ({type(failure).__name__})"

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
        return self._session


def router_urls(pods: Iterable[Pod]) -> list[str]:
    """The routers among the Pods of a deployment: those that are addressed and not on their way out, at the port that
    they declare as `http`, else at the contract's. One that is not Ready may still be passing requests on."""
    urls = []
    for pod in pods:
        address = _address(pod.status.pod_ip)
        if pod.router is not None and address and not pod.deleting and not pod.finished:
            urls.append(f"http://{f'[{address}]' if ':' in address else address}:{_router_port(pod)}")
    return sorted(urls)


def _router_port(pod: Pod) -> int:
    declared = (port for container in pod.spec.containers or () for port in container.ports or ())
    return next((port.container_port for port in declared if port.name == SERVING_PORT_NAME), ROUTER_PORT)


def _lists(listed: EndpointSlice, pod: Pod) -> bool:
    addresses = _addresses(pod)
    for endpoint in listed.endpoints or ():
        reference = endpoint.target_ref
        if reference is not None and reference.uid:
            if reference.uid == pod.metadata.uid:
                return True
        elif not addresses.isdisjoint(map(_address, endpoint.addresses or ())):
            return True
    return False


def _host(url: str) -> str:
    """The address in a worker's URL, with or without a scheme; empty where it names its host in another way, which
    may be anybody's."""
    text = _RANK.sub("", url)
    try:
        return _address(urlsplit(text if "//" in text else f"//{text}").hostname or "")
    except ValueError:
        return ""


def _addresses(pod: Pod) -> frozenset[str]:
    """A Pod's addresses of every family."""
    texts = (pod.status.pod_ip, *(each.ip for each in pod.status.pod_ips or ()))
    return frozenset(address for text in texts if (address := _address(text)))


def _address(text: str) -> str:
    """An IP address in its one spelling, empty for anything else. Neither the zone of a link nor IPv4 written as IPv6
    makes another address of it."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    return str(getattr(address, "ipv4_mapped", None) or address)
