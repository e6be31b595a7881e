"""A program and its kernels to what a page loads: so far, where every tensor lies (docs/memory-plan.md)."""
