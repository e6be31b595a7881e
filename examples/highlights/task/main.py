"""Recognises what is on an image, on the device. What it is not sure of goes to the cloud, and nothing else does."""

import json

import tapml.arrays as np

import tapml

with open("/task/threshold.json") as file:  # noqa: PTH123
    THRESHOLD = json.load(file)["confidence"]

MODEL = tapml.load("model.tapml")


async def run(event):
    """`event`: {"image": its number, "pixels": 64 numbers from 0 to 16}."""
    pixels = np.reshape(np.asarray(event["pixels"], dtype=np.float32), (1, 64))
    (shares,) = (await MODEL.run({"pixels": pixels})).values()
    shares = shares.tolist()
    confidence = max(shares)
    if unsure := confidence < THRESHOLD:
        tapml.emit("unsure", event)
    return {"label": shares.index(confidence), "confidence": confidence, "unsure": unsure}
