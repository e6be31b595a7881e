"""A release over a fleet of millions, by the code that decides about real ones (docs/field.md)."""
