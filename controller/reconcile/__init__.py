"""The per-scaler loop: binding, sampling, decision, commit, status."""

from controller.reconcile.binder import Binder
from controller.reconcile.caches import ControllerCaches
from controller.reconcile.committer import Committer
from controller.reconcile.reconciler import Caches, Reconciler
from controller.reconcile.records import NoRecords, RecordDirectory, RecordSink
from controller.reconcile.reporter import Reporter
from controller.reconcile.sampler import Sampler
from controller.reconcile.status_writer import StatusWriter

__all__ = [
    "Binder",
    "Caches",
    "Committer",
    "ControllerCaches",
    "NoRecords",
    "Reconciler",
    "RecordDirectory",
    "RecordSink",
    "Reporter",
    "Sampler",
    "StatusWriter",
]
