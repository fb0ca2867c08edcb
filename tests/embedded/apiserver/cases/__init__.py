"""Conversations with an API server, as data: what is sent, in which order. They are played against the embedded server
and compared with what a real kube-apiserver answered to the very same (`transcripts.json`, see `transcripts`)."""

from tests.embedded.apiserver.cases.applies import APPLIES
from tests.embedded.apiserver.cases.definitions import DEFINITIONS
from tests.embedded.apiserver.cases.deletions import DELETIONS
from tests.embedded.apiserver.cases.kinds import KINDS
from tests.embedded.apiserver.cases.patches import PATCHES
from tests.embedded.apiserver.cases.reads import READS
from tests.embedded.apiserver.cases.refusals import REFUSALS
from tests.embedded.apiserver.cases.schemas import SCHEMAS
from tests.embedded.apiserver.cases.steps import Case, Step
from tests.embedded.apiserver.cases.watches import WATCHES
from tests.embedded.apiserver.cases.writes import WRITES

CASES: tuple[Case, ...] = (
    *WRITES,
    *DELETIONS,
    *PATCHES,
    *APPLIES,
    *SCHEMAS,
    *READS,
    *WATCHES,
    *KINDS,
    *REFUSALS,
    *DEFINITIONS,
)

__all__ = ["CASES", "Case", "Step"]
