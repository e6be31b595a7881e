"""Tasks around compiled models, released to a fleet of browsers (docs/field.md)."""
