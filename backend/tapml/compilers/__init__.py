"""What makes kernels of operators. Each compiler has its folder; `base` says what all of them offer."""
