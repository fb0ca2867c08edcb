"""An independent look at one engine, for as long as it lives: its own gauges, read here without the project's code, and
what the router has under way there."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import aiohttp

from controller.api import Pod
from tests.engine.world import World

_GAUGES = re.compile(r"^vllm:num_requests_(running|waiting)\{[^}]*\} (\S+)$", re.MULTILINE)
_PERIOD_SECONDS = 0.1


@dataclass(frozen=True)
class Sight:
    """One look."""

    at: float  # before it was asked
    held: float | None  # running + waiting by the engine's gauges; None: it did not answer
    under_way: int  # answers by the router's count
    eligible: bool  # to the router
    state: str  # of the retirement


class Spectator:
    """Looks at one Pod until cancelled."""

    def __init__(self, team: World, pod: Pod) -> None:
        self._team = team
        self._uid = pod.metadata.uid
        self._url = team.endpoint(pod).url
        self.sights: list[Sight] = []

    async def run(self) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2.0)) as session:
            while True:
                at = self._team.clock.now()
                held = await self._held(session)
                view = next((each for each in self._team.router.members if each.member.uid == self._uid), None)
                self.sights.append(
                    Sight(
                        at,
                        held,
                        0 if view is None else view.in_flight,
                        view is not None and view.eligible,
                        self._team.retirement.get("state", ""),
                    )
                )
                await asyncio.sleep(_PERIOD_SECONDS)

    async def _held(self, session: aiohttp.ClientSession) -> float | None:
        try:
            async with session.get(self._url) as answer:
                found = _GAUGES.findall(await answer.text())
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        return sum(float(value) for _, value in found) if len(found) == 2 else None
