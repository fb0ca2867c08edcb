"""The conformance harness: other projects' test tables, run against our functions and our rebuilt rivals."""
