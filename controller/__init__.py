"""The scaler: rooms and what each may import are listed in docs/architecture.md and enforced by import-linter."""
