"""Public helpers for tests of this and other projects: a virtual-time event loop. Never imported by the controller."""

from controller.testing.virtual_time import Deadlock, VirtualTimeLoop, run_virtual

__all__ = ["Deadlock", "VirtualTimeLoop", "run_virtual"]
