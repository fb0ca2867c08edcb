"""Public helpers for tests of this and other projects: a virtual-time event loop, and a clock on it. Never imported by
the controller."""

from controller.testing.loop_clock import LoopClock
from controller.testing.virtual_time import Deadlock, VirtualTimeLoop, run_virtual

__all__ = ["Deadlock", "LoopClock", "VirtualTimeLoop", "run_virtual"]
