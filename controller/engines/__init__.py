"""Reading inference engines: scan an exposition, fill a reading by the engine's profile, scrape many processes at once.

Knows no Kubernetes. `Scraper` is the shell; everything below it is pure and usable on recorded bodies.
"""

from controller.engines.body import BodyReader
from controller.engines.exposition import Sample, Scan, Scanner, Series
from controller.engines.names import Family, Kind, PrintedName
from controller.engines.profile import Draft, Profile
from controller.engines.profiles import PROFILES
from controller.engines.reading import (
    EngineReading,
    Histogram,
    Missing,
    MissingReason,
    Quality,
    Role,
    SleepState,
)
from controller.engines.refusal import BodyRefused, Reason
from controller.engines.scraper import Scraper
from controller.engines.targets import Failure, ScrapeResult, Target

__all__ = [
    "PROFILES",
    "BodyReader",
    "BodyRefused",
    "Draft",
    "EngineReading",
    "Failure",
    "Family",
    "Histogram",
    "Kind",
    "Missing",
    "MissingReason",
    "PrintedName",
    "Profile",
    "Quality",
    "Reason",
    "Role",
    "Sample",
    "Scan",
    "Scanner",
    "ScrapeResult",
    "Scraper",
    "Series",
    "SleepState",
    "Target",
]
