"""The localisation benchmark: bugs injected into the kernels of real models, and who is accused of them (docs/localization.md)."""
