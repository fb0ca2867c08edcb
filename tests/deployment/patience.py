"""How long a test waits for what is expected to happen. It costs nothing when it does."""

from __future__ import annotations

# Wall time. Only what hangs takes so long, however busy the machine is.
PATIENCE_SECONDS = 180.0
