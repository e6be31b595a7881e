"""`tapml field serve`: answers to profiles, files of versions, reports (docs/field.md)."""
