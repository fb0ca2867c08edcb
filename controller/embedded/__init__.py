"""The embedded world: what a controller needs around it, in one process and on loopback.

The public parts are its modules, so that who needs only one does not load the others:

* `apiserver`: a Kubernetes API server in process;
* `engine`: engine servers with vLLM's HTTP API and metric names;
* `router`: a least-loaded dispatcher; `membership` tells it the Pods; `clients`: open-loop streaming clients;
* `kubelet`: runs an engine server for every Pod, as `containers` has it, and ends it as its preStop hook says;
* `census`: counts the replicas; `audit` and `retirement_history`: what the API server's history proves;
* `cycling`: counts that go up and down under load;
* `world`: all of it put together, with `results` for reports; `pace`: how fast it may run.
"""
