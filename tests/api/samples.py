"""Objects that the tests of this room start from."""

from __future__ import annotations

import copy

import yaml

# The manifest of the published benchmark, without its comments: it must be accepted unchanged.
BENCHMARK_SCALER = yaml.safe_load("""
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata:
  name: autoscale-vllm-pd
spec:
  targetRef:
    name: autoscaling-vllm-pd
  mode: Active
  sampling:
    intervalSeconds: 10
  roles:
    - name: prefill
      minReplicas: 1
      maxReplicas: 2
    - name: decode
      minReplicas: 1
      maxReplicas: 2
  ratios:
    - numeratorRole: prefill
      denominatorRole: decode
      target: "1"
  algorithm:
    type: Proportional
    proportional:
      metric: RunningRequests
      tolerance: "0.1"
      roleTargets:
        - name: prefill
          target: "3"
        - name: decode
          target: "3"
""")

TOKEN_THROUGHPUT = {
    "type": "TokenThroughput",
    "tokenThroughput": {"prefillTargetTokensPerSecond": "1200", "decodeTargetTokensPerSecond": "300"},
}
PREDICTIVE = {
    "type": "Predictive",
    "predictive": {
        "tokenThroughput": {"prefillTargetTokensPerSecond": "1200", "decodeTargetTokensPerSecond": "300"},
        "horizonSeconds": 30,
        "minPoints": 2,
        "qLevel": "0.5",
        "qTrend": "0.3",
        "prefillTokenCapacityPerReplica": "2000",
        "decodeTokenCapacityPerReplica": "2000",
    },
}

# A prefill/decode deployment: the first role short of quota, the second one retiring a replica.
PD_DEPLOYMENT = yaml.safe_load("""
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata:
  name: qwen-pd
  namespace: team-a
  uid: 0d4c
  generation: 9
  managedFields:
    - manager: argocd-controller
      operation: Apply
      time: "2026-10-20T08:00:00Z"
      fieldsType: FieldsV1
      fieldsV1:
        f:spec:
          f:roles:
            'k:{"name":"decode"}': {".": {}, "f:name": {}, "f:replicas": {}}
            'k:{"name":"prefill"}': {".": {}, "f:name": {}, "f:kind": {}}
    - manager: model-deployment-scaler
      operation: Update
      time: "2026-10-20T09:00:00Z"
      fieldsV1:
        f:spec:
          f:roles:
            'k:{"name":"decode"}': {"f:replicas": {}}
            'k:{"name":"prefill"}': {"f:replicas": {}}
    - manager: gpustack-operator
      operation: Update
      subresource: status
      fieldsV1: {"f:status": {"f:phase": {}}}
spec:
  model: {name: Qwen/Qwen3-8B, artifactRef: {name: qwen3-8b}}
  engine: {name: vLLM, version: "0.29.0"}
  router: {name: llm-d-router, replicas: 1}
  kvTransfer: {protocol: TCP}
  roles:
    - name: prefill
      kind: Prefill
      replicas: 3
      instanceType: gpustack--nvidia-h200-linux-amd64
      resources: {accelerator: "1"}
      extraArgs: ["--max-num-seqs", "64"]
    - name: decode
      kind: Decode
      replicas: 1
      acceleratorType: nvidia-h200
      resources: {accelerator: 2}
      env: [{name: HF_TOKEN, value: hf_secret}]
status:
  phase: Degraded
  endpoint: http://qwen-pd-router.team-a.svc:8081
  roles:
    - name: prefill
      kind: Prefill
      desired: 3
      ready: 2
      quotaReserved: 2
      unmanaged: false
      endpoints: {eligible: 2, serving: {state: Confirmed, value: 2}}
    - {name: decode, kind: Decode, desired: 1, ready: 2}
  retirement:
    roleName: decode
    replicaOrdinal: 1
    observedGeneration: 9
    targetMemberUIDs: ["7c1e"]
    targetWorkloadUID: "19aa"
    state: Draining
    startedAt: "2026-10-20T09:00:00Z"
  conditions:
    - {type: QuotaReserved, status: "False", reason: Pending, lastTransitionTime: "2026-10-20T08:59:00Z"}
""")


def scaler_spec(**changes: object) -> dict[str, object]:
    """The benchmark's spec with top-level members replaced; None removes one."""
    spec = copy.deepcopy(BENCHMARK_SCALER["spec"])
    for name, value in changes.items():
        if value is None:
            del spec[name]
        else:
            spec[name] = value
    return spec


def server_spec(algorithm: dict[str, object], **changes: object) -> dict[str, object]:
    """A spec for one Server role."""
    spec: dict[str, object] = {
        "targetRef": {"name": "chat"},
        "roles": [{"name": "server", "maxReplicas": 4}],
        "algorithm": algorithm,
    }
    return spec | changes
