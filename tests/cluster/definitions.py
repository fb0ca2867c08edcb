"""Definitions of a case's own, which it may change and take away."""

from __future__ import annotations

import asyncio
import copy
import itertools
from typing import Any

from controller.foundation import Resource
from tests.cluster.api import Api
from tests.cluster.objects import CRDS, GADGET_CRD
from tests.cluster.servers import SERVED_SECONDS

_numbers = itertools.count(1)


def fresh_crd() -> dict[str, Any]:
    """A definition like that of Gadgets in a group that nobody else uses."""
    crd = copy.deepcopy(GADGET_CRD)
    crd["spec"]["group"] = f"n{next(_numbers)}.example.com"
    crd["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    crd["metadata"]["name"] = f"gadgets.{crd['spec']['group']}"
    return crd


async def install(api: Api, crd: dict[str, Any]) -> Resource:
    """Create a definition and wait until it is established and its first version is served: the real server serves it
    from the moment that its names are accepted, which is a little earlier."""
    (await api("POST", CRDS.path(), crd)).ok()
    resource = Resource(crd["spec"]["group"], "v1alpha1", "gadgets", "Gadget")
    async with asyncio.timeout(SERVED_SECONDS):
        while not await _is_established(api, crd["metadata"]["name"]) or (await api.list(resource)).status != 200:
            await asyncio.sleep(0.05)
    return resource


async def _is_established(api: Api, name: str) -> bool:
    conditions = (await api("GET", CRDS.path(None, name))).ok()["status"]["conditions"] or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
