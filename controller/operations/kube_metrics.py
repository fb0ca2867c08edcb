"""Metrics of the Kubernetes layer: requests, watches, leader election, events.

The classes have the methods of the observer protocols of `controller.kube`; that room does not know this one, and the
protocols are structural, so neither imports the other.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# client-go's rest_client_request_duration_seconds
_REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class KubeMetrics:
    """Requests, reflectors, the elector and events of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(name, text, labels, registry=registry)

        self._requests = counter(
            "rest_client_requests", "Requests per code, method and host.", ("code", "method", "host")
        )
        self._request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Time until the answer began.",
            ("verb", "host"),
            buckets=_REQUEST_BUCKETS,
            registry=registry,
        )
        self._retries = counter("rest_client_request_retries", "Requests sent again.", ("code", "verb", "host"))
        self._lists = counter("mdscaler_informer_lists", "Complete lists that reached the cache.", ("resource",))
        self._relists = counter("mdscaler_informer_relists", "Lists that had to be made again.", ("resource", "reason"))
        self._watches = counter("mdscaler_informer_watches", "Watches begun.", ("resource",))
        self._watch_ends = counter("mdscaler_informer_watch_restarts", "Watches that ended.", ("resource", "reason"))
        self._failures = counter("mdscaler_informer_failures", "Failed lists and watches.", ("resource", "reason"))
        self._objects = Gauge(
            "mdscaler_informer_listed_objects", "Objects in the last complete list.", ("resource",), registry=registry
        )
        self._handler_failures = counter(
            "mdscaler_informer_handler_failures", "Event handlers that raised.", ("resource",)
        )
        self._skipped = counter("mdscaler_informer_skipped_events", "Events that could not be used.", ("resource",))
        self._master = Gauge(
            "leader_election_master_status", "1 while this process leads.", ("name",), registry=registry
        )
        self._slow_paths = counter("leader_election_slowpath", "Renewals that had to read the lease.", ("name",))
        self._renewals = Histogram(
            "mdscaler_lease_renew_duration_seconds",
            "Time a renewal took.",
            ("name",),
            buckets=_REQUEST_BUCKETS,
            registry=registry,
        )
        self._events = counter("mdscaler_events_written", "Events the API server has.")
        self._dropped_events = counter("mdscaler_events_dropped", "Events lost.", ("reason",))

    def request_finished(self, verb: str, host: str, code: str, seconds: float) -> None:
        """One attempt ended."""
        self._requests.labels(code, verb, host).inc()
        self._request_seconds.labels(verb, host).observe(seconds)

    def request_retried(self, verb: str, host: str, code: str) -> None:
        """The same request is going to be sent again."""
        self._retries.labels(code, verb, host).inc()

    def listed(self, resource: str, seconds: float, items: int) -> None:
        """A complete list is in the store."""
        self._lists.labels(resource).inc()
        self._objects.labels(resource).set(items)

    def relist_needed(self, resource: str, reason: str) -> None:
        """A list has to be made again."""
        self._relists.labels(resource, reason).inc()

    def watch_started(self, resource: str) -> None:
        """The server accepted a watch."""
        self._watches.labels(resource).inc()

    def watch_ended(self, resource: str, reason: str, seconds: float, events: int) -> None:
        """A watch is over."""
        self._watch_ends.labels(resource, reason).inc()

    def failed(self, resource: str, reason: str, failures: int) -> None:
        """A list or watch failed."""
        self._failures.labels(resource, reason).inc()

    def skipped(self, resource: str) -> None:
        """An event could not be used."""
        self._skipped.labels(resource).inc()

    def handler_failed(self, resource: str) -> None:
        """An event handler raised."""
        self._handler_failures.labels(resource).inc()

    def leading(self, name: str, value: bool) -> None:
        """Whether this process holds the lease."""
        self._master.labels(name).set(int(value))

    def slow_path(self, name: str) -> None:
        """A renewal needed to read the lease first."""
        self._slow_paths.labels(name).inc()

    def renewed(self, name: str, seconds: float) -> None:
        """A successful renewal."""
        self._renewals.labels(name).observe(seconds)

    def event_written(self) -> None:
        """The API server has an event."""
        self._events.inc()

    def event_dropped(self, reason: str) -> None:
        """An event is lost."""
        self._dropped_events.labels(reason).inc()
