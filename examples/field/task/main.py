"""Runs the version's model with what the page gives."""

import tapml.arrays as np

import tapml

MODEL = tapml.load("model.tapml")


async def run(event):
    """`event`: {"words": 48 rows of 32 numbers}."""
    await MODEL.run({"words": np.asarray(event["words"], dtype=np.float32)})
