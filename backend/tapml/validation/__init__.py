"""Operator-wise and model-wise validation, and offloading step by step."""
