"""A real Kubernetes control plane on loopback: etcd, kube-apiserver and kube-controller-manager, without nodes.

    with ControlPlane() as cluster:                 # or `async with`; ready in about three seconds
        kubeconfig = cluster.kubeconfig()           # of an administrator
        cluster.request("GET", "/api/v1/nodes")

    python -m hack.controlplane build               # build the programs, or say where they are
    python -m hack.controlplane up                  # run one until interrupted, print its kubeconfig

The programs come from `KUBEBUILDER_ASSETS` where that is set, otherwise they are built once with Go, from the modules
that `kubernetes/go.mod` and `etcd/go.mod` fix, into a cache of the user.
"""

from hack.controlplane.binaries import Binaries, BinariesMissing, NotBuilt, build_binaries, find_binaries
from hack.controlplane.certificates import Certificates
from hack.controlplane.cluster import ControlPlane

__all__ = ["Binaries", "BinariesMissing", "Certificates", "ControlPlane", "NotBuilt", "build_binaries", "find_binaries"]
