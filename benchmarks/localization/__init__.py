"""The localisation benchmark: bugs in the kernels of real models, and who is accused of them (docs/localization.md)."""
