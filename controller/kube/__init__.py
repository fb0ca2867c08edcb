"""The Kubernetes client layer: connection, verbs, cache, queue, lease, events. Knows no kind's meaning.

Modules, each importing only those before it:

    wire      errors · recovery · nesting · managed_fields · observers · classify · proxies · loaders · connection ·
              exec_plugin · config · transport · lines · watching · retries · wire · pages · patches · streaming ·
              client · pod_exec
    cache     versions · backoff · pacing · envelopes · listdecoder · listwatch · endmark · reflector · store ·
              handlers · cache · scopes · informer · lean · read_your_writes
    queue     ratelimit · workqueue · workers · loops
    runtime   lease · leaselock · elector · event_series · events

Only Lease and Event are written here in a meaning of their own; everything else is the caller's type and bytes.
"""

from controller.kube.backoff import Backoff, BackoffPolicy
from controller.kube.client import KubeClient, ListResult
from controller.kube.config import load_connection
from controller.kube.connection import Connection, Credentials, TlsFiles
from controller.kube.elector import Elector, LeadershipLost, new_identity
from controller.kube.errors import (
    AlreadyExists,
    ApiError,
    BadAnswer,
    Cause,
    Conflict,
    ConnectFailed,
    ConnectionLost,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    NotLeader,
    Outcome,
    ServerFailed,
    Throttled,
    TimedOut,
    TooLarge,
    Transient,
    Unauthorized,
    Unsupported,
)
from controller.kube.event_series import ObjectRef
from controller.kube.events import EVENT, EventRecorder, EventType
from controller.kube.handlers import FilteringHandler, Handler, HandlerFunctions, Registration, Tombstone
from controller.kube.informer import Informer
from controller.kube.lean import lean
from controller.kube.lease import LEASE, Lease, LeaseSpec, LeaseTimes
from controller.kube.leaselock import LeaseLock, Lock
from controller.kube.loops import Loop, LoopObserver, run_loops
from controller.kube.observers import (
    SILENT,
    ElectorObserver,
    EventObserver,
    QueueObserver,
    ReflectorObserver,
    RequestObserver,
    RestartReason,
    SilentObserver,
)
from controller.kube.pacing import TimeBudget, calm_collector, settle
from controller.kube.patches import JsonPatch, Patch, apply_patch, json_pointer, merge_patch
from controller.kube.pod_exec import ExecResult, PodExec
from controller.kube.ratelimit import ItemBackoff
from controller.kube.read_your_writes import LAG_GIVEN_UP, LAG_WORTH_TELLING, ConsistencyStore, Lag, look_again_seconds
from controller.kube.store import IndexFunction, Store
from controller.kube.streaming import StreamingSupport
from controller.kube.versions import is_older, parse_version
from controller.kube.workers import (
    Done,
    ReconcileOutcome,
    Requeue,
    RequeueAfter,
    Result,
    TerminalError,
    WorkerObserver,
    run_workers,
)
from controller.kube.workqueue import Priority, WorkQueue

__all__ = [
    "EVENT",
    "LAG_GIVEN_UP",
    "LAG_WORTH_TELLING",
    "LEASE",
    "SILENT",
    "AlreadyExists",
    "ApiError",
    "Backoff",
    "BackoffPolicy",
    "BadAnswer",
    "Cause",
    "Conflict",
    "ConnectFailed",
    "Connection",
    "ConnectionLost",
    "ConsistencyStore",
    "Credentials",
    "Done",
    "Elector",
    "ElectorObserver",
    "EventObserver",
    "EventRecorder",
    "EventType",
    "ExecResult",
    "Expired",
    "FilteringHandler",
    "Forbidden",
    "Handler",
    "HandlerFunctions",
    "IndexFunction",
    "Informer",
    "Invalid",
    "ItemBackoff",
    "JsonPatch",
    "KubeClient",
    "KubeError",
    "Lag",
    "LeadershipLost",
    "Lease",
    "LeaseLock",
    "LeaseSpec",
    "LeaseTimes",
    "ListResult",
    "Lock",
    "Loop",
    "LoopObserver",
    "NotFound",
    "NotLeader",
    "ObjectRef",
    "Outcome",
    "Patch",
    "PodExec",
    "Priority",
    "QueueObserver",
    "ReconcileOutcome",
    "ReflectorObserver",
    "Registration",
    "RequestObserver",
    "Requeue",
    "RequeueAfter",
    "RestartReason",
    "Result",
    "ServerFailed",
    "SilentObserver",
    "Store",
    "StreamingSupport",
    "TerminalError",
    "Throttled",
    "TimeBudget",
    "TimedOut",
    "TlsFiles",
    "Tombstone",
    "TooLarge",
    "Transient",
    "Unauthorized",
    "Unsupported",
    "WorkQueue",
    "WorkerObserver",
    "apply_patch",
    "calm_collector",
    "is_older",
    "json_pointer",
    "lean",
    "load_connection",
    "look_again_seconds",
    "merge_patch",
    "new_identity",
    "parse_version",
    "run_loops",
    "run_workers",
    "settle",
]
