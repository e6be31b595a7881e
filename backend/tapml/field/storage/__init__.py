"""Releases and what devices reported of them, in SQLite or PostgreSQL (docs/field.md)."""
