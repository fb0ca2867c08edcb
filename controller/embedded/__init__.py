"""The embedded world: what a controller needs around it, in one process and on loopback.

The public parts are its modules, so that who needs only one does not load the others:

* `apiserver`: a Kubernetes API server in process;
* `engine`: engine servers with vLLM's HTTP API and metric names;
* `router`: a least-loaded dispatcher; `clients`: open-loop streaming clients;
* `actuator`: the operator and kubelet that turn ModelDeployments into engine servers and Pods;
* `world`: all of it put together, with `results` for reports; `pace`: how fast it may run.
"""
