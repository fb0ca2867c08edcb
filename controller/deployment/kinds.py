"""Views of Service and EndpointSlice, as far as withdrawing a replica needs them. Nothing is required of them."""

from __future__ import annotations

import msgspec

from controller.foundation import ObjectMeta


class ServicePort(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A port of a Service."""

    name: str = ""
    port: int = 0
    target_port: int | str | None = None
    protocol: str = "TCP"

    def shown(self) -> dict[str, object]:
        """As it is written."""
        return {
            "name": self.name,
            "port": self.port,
            "targetPort": self.port if self.target_port is None else self.target_port,
            "protocol": self.protocol,
        }


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Whom a Service leads to."""

    selector: dict[str, str] | None = None
    ports: tuple[ServicePort, ...] | None = None
    publish_not_ready_addresses: bool = False


class Service(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A Service."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ServiceSpec | None = None

    @property
    def selector(self) -> dict[str, str]:
        """The labels that its Pods have; empty: its addresses are somebody's own."""
        return (self.spec.selector if self.spec is not None else None) or {}

    @property
    def ports(self) -> tuple[ServicePort, ...]:
        """Its ports."""
        return (self.spec.ports if self.spec is not None else None) or ()

    @property
    def for_peers(self) -> bool:
        """It lists Pods whether they are Ready or not: it is there for them to find each other, not for requests."""
        return self.spec is not None and self.spec.publish_not_ready_addresses

    def owned_by(self, uid: str) -> bool:
        """The object of this UID controls it."""
        return any(owner.controller and owner.uid == uid for owner in self.metadata.owner_references or ())


SERVICE_NAME_LABEL = "kubernetes.io/service-name"  # of an EndpointSlice


class TargetRef(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The object behind an endpoint."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class EndpointConditions(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What is true of an endpoint."""

    ready: bool | None = None  # None counts as ready


class Endpoint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One endpoint. For a replica that leaves, being listed is what counts, whatever its conditions say."""

    addresses: tuple[str, ...] | None = None
    target_ref: TargetRef | None = None
    conditions: EndpointConditions = EndpointConditions()


class EndpointSlice(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A part of the endpoints of a Service."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    endpoints: tuple[Endpoint, ...] | None = None

    @property
    def ready_pods(self) -> list[str]:
        """UIDs of the Pods that get requests by it."""
        ready = (each for each in self.endpoints or () if each.conditions.ready is not False)
        return [each.target_ref.uid for each in ready if each.target_ref is not None]
