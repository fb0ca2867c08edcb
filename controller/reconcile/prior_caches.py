"""The caches that only capacity priors need, and which change of them wakes which scaler.

Followed: ConfigMaps (of which only a catalog is kept), ModelArtifacts and InstanceTypes. None of them is waited for
without end: where a kind is not installed or may not be read, a prior that needs it is unresolved and says so.

Nodes are followed only once a scaler asks for a prior and the InstanceType of a role does not say what hardware it is.
Most clusters never get there, and a large one has thousands of Nodes whose status changes all the time. Of a Node only
the labels that hardware is read from are kept.

A scaler that asks for a prior is woken when what it is resolved from changes: the text of its catalog, or, where its
ConfigMap has none, whether there is a ConfigMap and which keys a message names; the repository of its artifact; the
hardware of its pools. Changes of metadata and of figures (free cards, progress of a download) wake nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from catalog import (
    CONFIG_MAP_KEY,
    CatalogCache,
    CatalogResult,
    group_label,
    labels_that_count,
    load_embedded,
    pool_says_hardware,
)
from controller.api import (
    CONFIG_MAPS,
    INSTANCE_TYPES,
    MODEL_ARTIFACTS,
    NODES,
    ConfigMap,
    InstanceType,
    ModelArtifact,
    ModelDeployment,
    Node,
    Pod,
    ScalerSpec,
)
from controller.foundation import KubeObject, ObjectMeta
from controller.kube import HandlerFunctions, Informer, KubeClient, ReflectorObserver
from controller.planning import PriorSources, roles_that_ask

_BY_GROUP = "group"
_KEYS_NAMED = 5
_GROUP_PREFIX = group_label("")

T = TypeVar("T", bound=KubeObject)
# Wakes the scalers that a change concerns.
Wake = Callable[[str], None]


class PriorCaches:
    """Informers of what priors are resolved from. `catalog_changed` is called with the key of a ConfigMap,
    `artifact_changed` with the key of a ModelArtifact, `pool_changed` with the name of an InstanceType, `nodes_changed`
    with the key of a scaler."""

    def __init__(
        self,
        client: KubeClient,
        namespaces: list[str] | None,
        observer: ReflectorObserver,
        *,
        catalog_changed: Wake,
        artifact_changed: Wake,
        pool_changed: Wake,
        nodes_changed: Wake,
    ) -> None:
        self.config_maps = Informer(
            client, CONFIG_MAPS, ConfigMap, namespace=namespaces, transform=_catalog_only, observer=observer
        )
        self.artifacts = Informer(client, MODEL_ARTIFACTS, ModelArtifact, namespace=namespaces, observer=observer)
        self.pools = Informer(client, INSTANCE_TYPES, InstanceType, observer=observer)
        self.nodes = Informer(
            client, NODES, Node, transform=_hardware_labels, indexers={_BY_GROUP: _groups_of}, observer=observer
        )
        # Set once somebody needs the labels of Nodes; they are followed from then on.
        self.nodes_wanted = asyncio.Event()
        self._catalogs = CatalogCache()
        self._reading_nodes: set[str] = set()  # keys of the scalers whose last resolution looked at Nodes
        self._nodes_changed = nodes_changed
        self.config_maps.add_handler(_tells(_what_is_kept, catalog_changed))
        self.artifacts.add_handler(_tells(_repository, artifact_changed))
        self.pools.add_handler(_tells(_pool_hardware, pool_changed))
        self.nodes.add_handler(_tells(_labels, self._wake_readers_of_nodes))

    @property
    def followed(self) -> tuple[Informer[ConfigMap] | Informer[ModelArtifact] | Informer[InstanceType], ...]:
        """Those that are followed from the start."""
        return (self.config_maps, self.artifacts, self.pools)

    def inputs(self, spec: ScalerSpec, target: ModelDeployment, pods: Sequence[Pod]) -> tuple[object, ...]:
        """Everything that a resolution for this scaler rests on, to be compared with what it was before; nothing is
        parsed. Empty where no prior is asked for."""
        found: list[object] = []
        for name in roles_that_ask(spec, target):
            pool = self._pool(target, name)
            nodes = self._nodes(name, pool, pods)
            found += (None if pool is None else _pool_hardware(pool), tuple(map(_labels, nodes)))
        if not found:
            return ()
        config_map, artifact = self.config_maps.store.get(_catalog_key(spec, target)), self._artifact(target)
        found += (
            None if config_map is None else _what_is_kept(config_map),
            None if artifact is None else _repository(artifact),
        )
        return tuple(found)

    def sources(self, key: str, spec: ScalerSpec, target: ModelDeployment, pods: Sequence[Pod]) -> PriorSources:
        """What a resolution for the scaler `key` reads. Cheap where no prior is asked for."""
        self._reading_nodes.discard(key)
        asking = roles_that_ask(spec, target)
        pools = {name: pool for name in asking if (pool := self._pool(target, name)) is not None}
        nodes: dict[str, tuple[Node, ...]] = {}
        for name in asking:
            if not pool_says_hardware(pools.get(name)):
                self._reading_nodes.add(key)
                self.nodes_wanted.set()
                nodes[name] = self._nodes(name, pools.get(name), pods)
        config_map = _catalog_key(spec, target)
        if config_map:
            found = self.config_maps.store.get(config_map)
            catalog: CatalogResult = self._catalogs.config_map(config_map, None if found is None else found.data or {})
        else:
            catalog = load_embedded()
        return PriorSources(catalog=catalog, artifact=self._artifact(target), pools=pools, nodes=nodes)

    def forget(self, key: str) -> None:
        """The scaler is gone."""
        self._reading_nodes.discard(key)

    def _artifact(self, target: ModelDeployment) -> ModelArtifact | None:
        reference = target.spec.model.artifact_ref
        return None if reference is None else self.artifacts.store.get(f"{target.metadata.namespace}/{reference.name}")

    def _pool(self, target: ModelDeployment, role: str) -> InstanceType | None:
        known = target.role(role)
        return None if known is None else self.pools.store.get(known.pool)

    def _nodes(self, role: str, pool: InstanceType | None, pods: Sequence[Pod]) -> tuple[Node, ...]:
        """The nodes of a pool that does not say its hardware: those that carry the label of its accelerator group, or,
        where none does, those that the role's Pods run on. Empty where any of these is not known."""
        if pool_says_hardware(pool):
            return ()
        group = "" if pool is None else pool.spec.accelerator_group
        found: list[Node | None] = list(self.nodes.store.by_index(_BY_GROUP, group) if group else ())
        if not found:
            names = {pod.spec.node_name for pod in pods if pod.role == role and pod.spec.node_name}
            found = [self.nodes.store.get(name) for name in names]
        known = [node for node in found if node is not None]
        return tuple(sorted(known, key=lambda node: node.metadata.name)) if len(known) == len(found) else ()

    def _wake_readers_of_nodes(self, _: str) -> None:
        for key in self._reading_nodes:
            self._nodes_changed(key)


def _tells(essence: Callable[[T], object], changed: Wake) -> HandlerFunctions[T]:
    """A handler that calls `changed` with the key of every object whose essence is another than before; None is the
    essence of an object that matters to nobody, and of one that is not there."""

    def compared(before: object, after: object, key: str) -> None:
        if before != after:
            changed(key)

    return HandlerFunctions(
        lambda new, _: compared(None, essence(new), new.metadata.key),
        lambda old, new: compared(essence(old), essence(new), new.metadata.key),
        lambda tombstone: compared(essence(tombstone.last_known), None, tombstone.key),
    )


def _catalog_key(spec: ScalerSpec, target: ModelDeployment) -> str:
    prior = spec.algorithm.capacity_prior
    reference = None if prior is None else prior.catalog_ref
    return "" if reference is None else f"{target.metadata.namespace}/{reference.name}"


def _bare(metadata: ObjectMeta) -> ObjectMeta:
    """Name and version: `kubectl apply` leaves a whole copy of the object in an annotation."""
    return ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def _catalog_only(config_map: ConfigMap) -> ConfigMap:
    """Of a ConfigMap only the catalog is kept: the cache must not hold what everybody else stores in theirs. Where
    there is none, a few names of keys are, for the message that says what is there instead."""
    data = config_map.data or {}
    kept = (
        {CONFIG_MAP_KEY: data[CONFIG_MAP_KEY]}
        if CONFIG_MAP_KEY in data
        else dict.fromkeys(sorted(data)[:_KEYS_NAMED], "")
    )
    return msgspec.structs.replace(config_map, metadata=_bare(config_map.metadata), data=kept)


def _what_is_kept(config_map: ConfigMap) -> dict[str, str]:
    """Never None: that a ConfigMap is there, with nothing in it that could be used, is another truth than that there is
    none."""
    return config_map.data or {}


def _repository(artifact: ModelArtifact) -> object:
    return artifact.hub_model, artifact.malformed


def _pool_hardware(pool: InstanceType) -> object:
    detail = pool.status.detail
    return (
        pool.spec.accelerator_group,
        None if detail is None else (detail.manufacturer, detail.product, str(detail.memory)),
        pool.malformed,
    )


def _hardware_labels(node: Node) -> Node:
    labels = labels_that_count(node.metadata.labels or {})
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(_bare(node.metadata), labels=labels))


def _labels(node: Node) -> dict[str, str] | None:
    return node.metadata.labels or None


def _groups_of(node: Node) -> Iterator[str]:
    for key, value in (node.metadata.labels or {}).items():
        if value == "true" and key.startswith(_GROUP_PREFIX):
            yield key.removeprefix(_GROUP_PREFIX)
