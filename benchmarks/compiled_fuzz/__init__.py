"""Mutated compiled models: what both verifiers say of them, and what those that are accepted would touch."""
