"""What a call may ask of a model, beyond the types of its inputs."""

from __future__ import annotations

MEND = "give inputs that need fewer, or carve the model with a larger --loop-limit"
"""For whom a call asks more turns of a loop than it was written out to."""
