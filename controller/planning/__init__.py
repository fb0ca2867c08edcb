"""Turns API objects and resolved priors into the inputs of `decide`, and owns the format of a decision record. No
I/O."""

from controller.planning.continuity import (
    Change,
    Continuity,
    EarlyShrink,
    committed_changes,
    compare_with_unbroken,
)
from controller.planning.inputs import capacities, decision_spec
from controller.planning.memory import remembered, restored
from controller.planning.mix import RoleMix, with_mixes
from controller.planning.priors import PriorSources, prior_of, resolve_priors, roles_that_ask
from controller.planning.record import FORMAT, Record, decision_json, replay
from controller.planning.record import decode as decode_record
from controller.planning.record import encode as encode_record
from controller.planning.record import read as read_records

__all__ = [
    "FORMAT",
    "Change",
    "Continuity",
    "EarlyShrink",
    "PriorSources",
    "Record",
    "RoleMix",
    "capacities",
    "committed_changes",
    "compare_with_unbroken",
    "decision_json",
    "decision_spec",
    "decode_record",
    "encode_record",
    "prior_of",
    "read_records",
    "remembered",
    "replay",
    "resolve_priors",
    "restored",
    "roles_that_ask",
    "with_mixes",
]
