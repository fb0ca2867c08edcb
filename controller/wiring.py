"""Builds a running controller from `Settings`."""
