"""Exported PyTorch programs: tiny transformers and hand-written blocks."""
