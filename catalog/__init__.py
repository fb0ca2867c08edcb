"""Capacity-prior catalog: schema, identity, resolution, importers, embedded data."""
