"""Generated operators through tapml's own kernels on devices."""
