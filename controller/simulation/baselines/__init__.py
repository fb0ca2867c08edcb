"""The rivals: other autoscalers' rules, rebuilt from what they publish, as pure functions and small state machines.

Each module names its source. They are used by the simulator for comparison and by the conformance harness, which checks
them against the numbers in those projects' own test tables. Nothing in the controller imports them.
"""
