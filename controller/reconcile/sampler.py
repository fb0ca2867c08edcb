"""Reads the engines of a target once: from the Pods in the cache to the observation that a decision is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controller import engines, scaling
from controller.api import InstanceType, MetricsEndpoint, ModelDeployment, Pod, Role
from controller.engines import Scraper, ScrapeResult
from controller.foundation import Clock
from controller.operations import ScalerMetrics
from controller.reconcile.memory import ScalerMemory
from controller.reconcile.observe import RoleView, note_listings, update_sightings, view_role
from controller.reconcile.readings import member_of, unseen_members
from controller.scaling import Observation


@dataclass(frozen=True, slots=True)
class Sampled:
    """One tick's sight of the target: the target as it was when the answers were in, its roles, the observation."""

    target: ModelDeployment
    views: dict[str, RoleView]
    observation: Observation


class Sampler:
    """Samples targets; `pods_of` gives the Pods in the cache that carry a target's labels, `pool_of` a pool by name."""

    def __init__(
        self,
        scraper: Scraper,
        pods_of: Callable[[ModelDeployment], Sequence[Pod]],
        pool_of: Callable[[str], InstanceType | None],
        metrics: ScalerMetrics,
        clock: Clock,
    ) -> None:
        self._scraper = scraper
        self._pods_of = pods_of
        self._pool_of = pool_of
        self._metrics = metrics
        self._clock = clock

    def look(self, target: ModelDeployment, roles: Sequence[str], memory: ScalerMemory) -> dict[str, RoleView]:
        """The roles as the cache shows them now; notes first sights and starts."""
        pods = [pod for pod in self._pods_of(target) if pod.owned_by(target.metadata.uid)]
        now = self._clock.now()
        memory.sightings, started = update_sightings(memory.sightings, pods, now)
        memory.startups |= started
        declared = [role for role in target.roles if role.name in roles]
        views = {role.name: view_role(target, role, pods, memory.sightings, now) for role in declared}
        memory.sightings = note_listings(memory.sightings, views.values(), now)
        return views

    async def sample(
        self,
        target: ModelDeployment,
        roles: Sequence[str],
        memory: ScalerMemory,
        latest: Callable[[], ModelDeployment | None],
    ) -> Sampled | None:
        """Scrape every Ready member, then look again: `latest` gives the target as the cache has it by then.

        None when the target was deleted or replaced while the engines were read.
        """
        views = self.look(target, roles, memory)
        results = await self._scrape(target, views)
        after = latest()
        if after is None or after.metadata.uid != target.metadata.uid:
            return None
        views = self.look(after, roles, memory)
        now = self._clock.now()
        pools = {name: self._pool_for(after, name) for name in views}
        observed = tuple(
            scaling.RoleObservation(
                name=name,
                current_replicas=view.declared,
                ready_replicas=view.ready - view.unlisted,
                unadmitted_replicas=view.unadmitted,
                starting_replicas=view.starting + view.unlisted,
                retiring_replicas=view.retiring,
                pool=None if (pool := pools[name]) is None else pool.name,
                accelerators_per_replica=_accelerators_per_replica(after, name),
                starting_since=view.starting_since,
                members=(
                    *(member_of(member, results.get(member.key), now) for member in view.members if member.ready),
                    *unseen_members(view.unseen, now),
                ),
                startups_seconds=_startups_of(view, memory),
            )
            for name, view in views.items()
        )
        retirement = after.status.retirement
        observation = Observation(
            now=now,
            roles=observed,
            retirement_in_progress=retirement is not None and retirement.running,
            pools=tuple({pool.name: pool for pool in pools.values() if pool is not None}.values()),
        )
        return Sampled(after, views, observation)

    def _pool_for(self, target: ModelDeployment, name: str) -> scaling.Pool | None:
        """The pool that a new replica would be admitted to; None where its free cards are not known, or the role takes
        shares of cards, which are not counted here."""
        role = target.role(name)
        found = None if role is None or takes_shares(role) else self._pool_of(role.pool)
        usage = None if found is None else found.status.accelerator
        if found is None or usage is None or usage.free is None:
            return None
        return scaling.Pool(
            name=found.metadata.name, free_accelerators=0.0 if found.spec.inactive else float(usage.free)
        )

    async def _scrape(self, target: ModelDeployment, views: dict[str, RoleView]) -> dict[str, ScrapeResult]:
        engine = target.spec.engine.known
        kinds = {role.name: role.known_kind for role in target.roles}
        targets = []
        for name, view in views.items():
            kind = kinds.get(name)
            targets += [
                engines.Target(
                    key=member.key,
                    host=member.endpoint.address,
                    port=member.endpoint.port,
                    path=member.endpoint.path,
                    scheme=member.endpoint.scheme,
                    engine=None if engine is None else engine.lower(),
                    served_model_names=(target.spec.model.name,) if target.spec.model.name else (),
                    role=None if kind is None else engines.Role(kind),
                )
                for member in view.members
                if member.ready and isinstance(member.endpoint, MetricsEndpoint)
            ]
        results = await self._scraper.scrape(targets)
        for result in results:
            outcome = "ok" if result.failure is None else str(result.failure.reason)
            self._metrics.scrapes.labels(outcome).inc()
            self._metrics.scrape_seconds.observe(result.duration_seconds)
        return {result.target.key: result for result in results}


def _startups_of(view: RoleView, memory: ScalerMemory) -> tuple[float, ...]:
    keys = {member.key for member in view.members}
    return tuple(seconds for uid, seconds in sorted(memory.startups.items()) if uid in keys)


def takes_shares(role: Role) -> bool:
    """The role's Pods get parts of cards."""
    resources = role.resources
    return resources is not None and bool(
        resources.accelerator_sliced_memory_percentage
        or resources.accelerator_sliced_cores_percentage
        or resources.accelerator_partitioned_profile
    )


def _accelerators_per_replica(target: ModelDeployment, name: str) -> float:
    role = target.role(name)
    return 1.0 if role is None else float(role.accelerators) * role.size
