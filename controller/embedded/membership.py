"""Tells a router its members: the eligible, Ready Pods of a deployment, as the API shows them."""

from __future__ import annotations

from controller.embedded import contract
from controller.embedded.apiclient import ApiClient, ListWatch
from controller.embedded.pods import router_members
from controller.embedded.router import Router


class Membership:
    """Run until cancelled. The router keeps its last members while the API cannot be reached."""

    def __init__(self, api: ApiClient, namespace: str, router: Router, deployment: str = "") -> None:
        """`deployment`: whose Pods are meant; empty: those of every deployment, where there is but one."""
        self._router = router
        selector = f"{contract.APP_NAME}={contract.APP}"
        if deployment:
            selector += f",{contract.APP_INSTANCE}={deployment}"
        self._pods = ListWatch(api, contract.PODS, namespace, self._apply, selector)

    async def run(self) -> None:
        """Follow the Pods."""
        await self._pods.run()

    def _apply(self) -> None:
        self._router.set_members(router_members(self._pods.objects.values()))
