"""The planner's stages, one small function each, and the plan they pass on."""

from controller.scaling.stages.bounds import bounds
from controller.scaling.stages.consolidation import consolidation
from controller.scaling.stages.coverage import coverage
from controller.scaling.stages.joint import joint
from controller.scaling.stages.plan import Context, Plans, RoleContext, RolePlan
from controller.scaling.stages.quota import quota
from controller.scaling.stages.ratio import ratio
from controller.scaling.stages.settling import settling
from controller.scaling.stages.stabilization import stabilization
from controller.scaling.stages.step import step

__all__ = [
    "Context",
    "Plans",
    "RoleContext",
    "RolePlan",
    "bounds",
    "consolidation",
    "coverage",
    "joint",
    "quota",
    "ratio",
    "settling",
    "stabilization",
    "step",
]
