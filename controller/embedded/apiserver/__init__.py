"""An in-process Kubernetes API server over HTTP: `ApiServer`, its `FaultPlan`, the errors that fixtures may meet."""

from controller.embedded.apiserver.access import ADMIN, ANONYMOUS
from controller.embedded.apiserver.errors import ApiError
from controller.embedded.apiserver.faults import FaultPlan
from controller.embedded.apiserver.rbac import User
from controller.embedded.apiserver.server import ApiServer, RequestRecord, Version

__all__ = ["ADMIN", "ANONYMOUS", "ApiError", "ApiServer", "FaultPlan", "RequestRecord", "User", "Version"]
