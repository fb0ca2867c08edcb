"""Numbers about work: client-go's `workqueue_*` of every queue, controller-runtime's `controller_runtime_*` of every
controller. A family is registered once; each loop of this process has its own series in it.

    work = WorkMetrics(registry)
    queue = WorkQueue(observer=work.queue("modeldeployment"))
    await run_workers(queue, reconcile, 8, observer=work.reconciles("modeldeployment", workers=8))
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller.foundation import monotonic

# client-go: ExponentialBuckets(1e-6, 10, 10)
_QUEUE_BUCKETS = tuple(10.0**exponent for exponent in range(-6, 4))
# controller-runtime's controller_runtime_reconcile_time_seconds, thinned
_RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class WorkMetrics:
    """The families of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, label: str = "name") -> Gauge:
            return Gauge(name, text, (label,), registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str, label: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, (label,), buckets=buckets, registry=registry)

        self.depth = gauge("workqueue_depth", "Items ready to be worked on.")
        self.adds = counter("workqueue_adds", "Items that became ready.", "name")
        self.retries = counter("workqueue_retries", "Items added with back-off.", "name")
        self.waited = histogram("workqueue_queue_duration_seconds", "Time an item was ready.", "name", _QUEUE_BUCKETS)
        self.worked = histogram(
            "workqueue_work_duration_seconds", "Time an item was worked on.", "name", _QUEUE_BUCKETS
        )
        self.unfinished = gauge("workqueue_unfinished_work_seconds", "Seconds of work under way, summed.")
        self.longest = gauge("workqueue_longest_running_processor_seconds", "Age of the oldest work under way.")
        self.total = counter("controller_runtime_reconcile", "Reconciliations per result.", "controller", "result")
        self.errors = counter("controller_runtime_reconcile_errors", "Reconciliations that raised.", "controller")
        self.seconds = histogram(
            "controller_runtime_reconcile_time_seconds",
            "Time a reconciliation took.",
            "controller",
            _RECONCILE_BUCKETS,
        )
        self.active = gauge("controller_runtime_active_workers", "Workers at work.", "controller")
        self.most = gauge("controller_runtime_max_concurrent_reconciles", "Workers there are.", "controller")

    def queue(self, name: str, now: Callable[[], float] = monotonic) -> QueueMetrics:
        """The observer of a queue of this name; one a name."""
        return QueueMetrics(self, name, now)

    def reconciles(self, controller: str, workers: int) -> ReconcileMetrics:
        """The observer of a controller's workers; one a controller."""
        return ReconcileMetrics(self, controller, workers)


class QueueMetrics:
    """One named queue; the ages of running work are computed when they are scraped."""

    def __init__(self, families: WorkMetrics, name: str, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._began: list[float] = []
        self._depth = families.depth.labels(name)
        self._adds = families.adds.labels(name)
        self._retries = families.retries.labels(name)
        self._waited = families.waited.labels(name)
        self._worked = families.worked.labels(name)
        families.unfinished.labels(name).set_function(lambda: sum(self._ages()))
        families.longest.labels(name).set_function(lambda: max(self._ages(), default=0.0))

    def added(self, depth: int) -> None:
        """An item became ready."""
        self._adds.inc()
        self._depth.set(depth)

    def started(self, depth: int, waited_seconds: float) -> None:
        """A worker took an item."""
        self._depth.set(depth)
        self._waited.observe(waited_seconds)
        self._began.append(self._now())

    def finished(self, worked_seconds: float) -> None:
        """A worker is done: the item that began about `worked_seconds` ago."""
        self._worked.observe(worked_seconds)
        if self._began:
            start = self._now() - worked_seconds
            self._began.remove(min(self._began, key=lambda began: abs(began - start)))

    def retried(self) -> None:
        """An item was added with back-off."""
        self._retries.inc()

    def _ages(self) -> list[float]:
        now = self._now()
        return [max(0.0, now - began) for began in self._began]


class ReconcileMetrics:
    """One controller."""

    RESULTS = ("success", "error", "requeue", "requeue_after", "terminal_error", "timeout")

    def __init__(self, families: WorkMetrics, controller: str, workers: int) -> None:
        self._total = {result: families.total.labels(controller, result) for result in self.RESULTS}
        self._errors = families.errors.labels(controller)
        self._seconds = families.seconds.labels(controller)
        self._active = families.active.labels(controller)
        self._active.set(0)
        families.most.labels(controller).set(workers)

    def began(self) -> None:
        """A worker took a key."""
        self._active.inc()

    def left(self) -> None:
        """A worker is done with its key."""
        self._active.dec()

    def reconciled(self, result: str, seconds: float) -> None:
        """A reconcile ended; `result` is one of RESULTS."""
        self._total[result].inc()
        self._seconds.observe(seconds)
        if result in ("error", "terminal_error", "timeout"):
            self._errors.inc()
