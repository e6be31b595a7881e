"""GPU time of kernels, compilers side by side."""
