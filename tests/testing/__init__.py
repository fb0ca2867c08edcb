"""Tests of the public test helpers."""
