"""Who would still send a request: EndpointSlices of the embedded API server, routers on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import orjson
import pytest

from controller.api import ModelDeployment, Pod, decode_view
from controller.deployment import AllOf, EndpointSlices, Listing, RouterViews, Sighting, router_urls
from controller.embedded.apiserver import ApiServer
from controller.foundation import ManualClock
from controller.kube import Forbidden, KubeClient
from tests.deployment.builders import deployment, pod
from tests.deployment.direct import DirectClient
from tests.deployment.patience import PATIENCE_SECONDS
from tests.deployment.routers import FakeRouter

MEMBER = pod(address="198.18.0.1")


def _slice(service: str | None, *, uid: str | None = None, address: str = "198.18.0.1") -> dict[str, Any]:
    endpoint: dict[str, Any] = {"addresses": [address], "conditions": {"ready": False}}
    if uid is not None:
        endpoint["targetRef"] = {"kind": "Pod", "name": "chat-server-0", "uid": uid}
    labels = {} if service is None else {"kubernetes.io/service-name": service}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{service or 'manual'}-x1", "namespace": "team", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [endpoint],
    }


def _service(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "team"}, "spec": spec}


@pytest.mark.parametrize(
    ("objects", "listing", "says"),
    [
        pytest.param([], Listing.GONE, "", id="without slices nobody lists it"),
        pytest.param([_slice("chat", uid="uid-chat-server-0")], Listing.LISTED, "Service chat still lists chat-server-0", id="a slice lists it, Ready or not"),
        pytest.param([_slice("chat", uid="another")], Listing.GONE, "", id="a Pod of the same name and address is another one"),
        pytest.param([_slice("mine")], Listing.LISTED, "mine", id="an endpoint without a reference is told by its address"),
        pytest.param([_slice("mine", address="198.18.0.9")], Listing.GONE, "", id="another address is another Pod"),
        pytest.param([_slice(None, uid="uid-chat-server-0")], Listing.LISTED, "manual-x1", id="a slice without a Service counts as well"),
        pytest.param([_slice("own", uid="uid-chat-server-0"), _service("own", selector={"a": "b"})], Listing.LISTED, "own", id="a person's own Service counts"),
        pytest.param([_slice("peers", uid="uid-chat-server-0"), _service("peers", publishNotReadyAddresses=True)], Listing.GONE, "", id="one for Pods to find each other does not"),
    ],
)  # fmt: skip
async def test_endpoint_slices(objects: list[dict[str, Any]], listing: Listing, says: str):
    server = ApiServer(clock=ManualClock(), create_namespaces=True)
    for obj in objects:
        server.put(obj)
    client = cast("KubeClient", DirectClient(server))
    found = await EndpointSlices(client).look(deployment(), [MEMBER])
    assert found.listing is listing
    assert says in found.note


async def test_slices_that_may_not_be_read_are_unknown():
    class Refusing:
        async def list(self, *_: Any, **__: Any) -> Any:
            raise Forbidden("endpointslices is forbidden", status=403)

    found = await EndpointSlices(cast("KubeClient", Refusing())).look(deployment(), [MEMBER])
    assert found.listing is Listing.UNKNOWN
    assert "forbidden" in found.note


# --- routers ---


@pytest.fixture
async def routers() -> AsyncIterator[tuple[FakeRouter, FakeRouter]]:
    pair = (FakeRouter(), FakeRouter())
    for router in pair:
        await router.start()
    yield pair
    for router in pair:
        await router.stop()


async def _ask(*routers: FakeRouter) -> Sighting:
    views = RouterViews(lambda _: [router.url for router in routers], timeout_seconds=PATIENCE_SECONDS)
    try:
        return await views.look(deployment(), [MEMBER])
    finally:
        await views.close()


WORKER = {"url": "http://198.18.0.1:8000", "selection": 4}


async def test_without_routers_none_holds_it():
    assert (await _ask()).listing is Listing.GONE


async def test_a_router_that_lists_it_holds_it(routers: tuple[FakeRouter, FakeRouter]):
    routers[1].holds({"url": "http://198.18.0.9:8000"}, WORKER)
    found = await _ask(*routers)
    assert found.listing is Listing.LISTED
    assert routers[1].url in found.note


async def test_a_router_that_only_waits_for_its_answers_does_not(routers: tuple[FakeRouter, FakeRouter]):
    routers[0].holds({**WORKER, "eligible": False, "inFlight": 2})
    routers[1].holds({**WORKER, "eligible": False, "inFlight": 1})
    assert await _ask(*routers) == Sighting(Listing.GONE, "", 3)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(503, b"", id="a router that refuses"),
        pytest.param(200, b"<html>", id="a proxy's page"),
        pytest.param(200, b'{"items": []}', id="another program"),
        pytest.param(200, b'{"workers": [{"url": 7}]}', id="a list that cannot be read"),
        pytest.param(200, b'{"workers": [' + b'{"url": ""},' * 100_000 + b'{"url": ""}]}', id="an answer without end"),
    ],
)
async def test_a_router_that_does_not_say_holds_everything(
    routers: tuple[FakeRouter, FakeRouter], status: int, body: bytes
):
    routers[0].status, routers[0].body = status, body
    found = await _ask(*routers)
    assert found.listing is Listing.UNKNOWN
    assert routers[0].url in found.note


async def test_a_router_that_is_gone_is_unknown(routers: tuple[FakeRouter, FakeRouter]):
    await routers[0].stop()
    assert (await _ask(*routers)).listing is Listing.UNKNOWN


async def test_one_that_holds_it_says_more_than_one_that_does_not_know(routers: tuple[FakeRouter, FakeRouter]):
    routers[0].status = 500
    routers[1].holds(WORKER)
    assert (await _ask(*routers)).listing is Listing.LISTED


DUAL = decode_view(
    Pod,
    orjson.dumps(
        {
            "metadata": {"name": "chat-server-0", "namespace": "team", "uid": "uid-chat-server-0"},
            "status": {"podIP": "198.18.0.1", "podIPs": [{"ip": "198.18.0.1"}, {"ip": "fd00::1"}]},
        }
    ),
)


@pytest.mark.parametrize(
    ("url", "listing"),
    [
        pytest.param("http://198.18.0.1:8000/", Listing.LISTED, id="its address"),
        pytest.param("198.18.0.1:8000", Listing.LISTED, id="without a scheme"),
        pytest.param("grpc://198.18.0.1:9000", Listing.LISTED, id="by another scheme"),
        pytest.param("http://198.18.0.1:8000@3", Listing.LISTED, id="a rank of it"),
        pytest.param("http://[::ffff:198.18.0.1]:8000", Listing.LISTED, id="as IPv6"),
        pytest.param("http://[fd00:0::1]:8000", Listing.LISTED, id="its other address"),
        pytest.param("http://[fd00::1%25eth0]:8000", Listing.LISTED, id="with a zone"),
        pytest.param("http://198.18.0.9:8000", Listing.GONE, id="another address"),
        pytest.param("http://198.18.0.9:8000@1", Listing.GONE, id="a rank of another one"),
        pytest.param("http://chat-server-0.chat.team.svc:8000", Listing.UNKNOWN, id="a name may be anybody's"),
        pytest.param("198.18.0.1@x:8000", Listing.UNKNOWN, id="what cannot be made out"),
        pytest.param("http://[fd00::1", Listing.UNKNOWN, id="half an address"),
        pytest.param("", Listing.UNKNOWN, id="nothing"),
    ],
)
async def test_however_a_router_spells_a_worker(routers: tuple[FakeRouter, FakeRouter], url: str, listing: Listing):
    routers[0].holds({"url": url})
    views = RouterViews(lambda _: [routers[0].url], timeout_seconds=PATIENCE_SECONDS)
    try:
        assert (await views.look(deployment(), [DUAL])).listing is listing
        (view,) = await views.views(deployment(), [DUAL])
    finally:
        await views.close()
    held = {Listing.LISTED: frozenset({"uid-chat-server-0"}), Listing.GONE: frozenset(), Listing.UNKNOWN: None}
    assert view.uids == held[listing]


async def test_a_worker_that_gets_nothing_new_may_have_any_name(routers: tuple[FakeRouter, FakeRouter]):
    routers[0].holds({"url": "http://chat-server-0.chat", "eligible": False})
    assert (await _ask(*routers)).listing is Listing.GONE


async def test_a_router_that_is_declared_and_not_there_is_unknown():
    views = RouterViews(lambda _: [], timeout_seconds=PATIENCE_SECONDS)
    found = await views.look(deployment(router={"name": "vllm-router"}), [MEMBER])
    assert found.listing is Listing.UNKNOWN
    assert "vllm-router" in found.note


def test_routers_are_asked_at_the_contracts_port_as_long_as_they_may_pass_requests_on():
    pods = [
        pod("r1", router="vllm-router", address="198.18.0.1"),
        pod("r2", router="vllm-router", address="fd00::1", ready=False),
        pod("r3", router="vllm-router", address="198.18.0.3", deleting=True),
        pod("r4", router="vllm-router", address=""),
        pod("engine", address="198.18.0.5"),
    ]
    assert router_urls(pods) == ["http://198.18.0.1:8081", "http://[fd00::1]:8081"]


# --- together ---


class Fixed:
    def __init__(self, sighting: Sighting) -> None:
        self._sighting = sighting

    async def look(self, target: ModelDeployment, members: Sequence[Pod]) -> Sighting:
        del target, members
        return self._sighting


@pytest.mark.parametrize(
    ("sightings", "listing", "in_flight"),
    [
        pytest.param([Listing.GONE, Listing.GONE], Listing.GONE, 2, id="all must have let go"),
        pytest.param(
            [Listing.GONE, Listing.UNKNOWN], Listing.UNKNOWN, 2, id="one that does not know is enough to wait"
        ),
        pytest.param([Listing.UNKNOWN, Listing.LISTED], Listing.LISTED, 2, id="one that holds it is the better reason"),
    ],
)
async def test_several_sources(sightings: list[Listing], listing: Listing, in_flight: int):
    found = await AllOf(Fixed(Sighting(each, each, 1)) for each in sightings).look(deployment(), [MEMBER])
    assert (found.listing, found.in_flight) == (listing, in_flight)
