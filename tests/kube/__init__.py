"""Tests of the Kubernetes client layer. The ids in docstrings (R1, W5, Q2 …) are those of docs/conformance.md."""
