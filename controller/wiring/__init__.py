"""Builds a running controller from its settings.

`controller` makes everything and gives it its order · `installed` looks at what the API server has before anything is
made of it · `following` runs the informers and tells whether they live.
"""

from controller.wiring.controller import Controller, run_controller

__all__ = ["Controller", "run_controller"]
