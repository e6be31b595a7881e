"""A stay on an item's page becomes 128 bytes, on the device: nothing else of it leaves."""

import base64
import json

import tapml.arrays as np

import feature
import tapml

MODEL = tapml.load("model.tapml")


async def run(given):
    """`given`: {"event": the one that ended the stay, "events": all of the stay}, as `startByEvents` has it."""
    found = feature.feature(given["events"])
    bag = np.reshape(np.asarray(feature.bag(found), dtype=np.float32), (1, feature.BUCKETS))
    encoding = (await MODEL.run({"bag": bag}))["encoding"]
    tapml.emit(
        "encoding",
        {"page": given["event"]["page"], "at": given["event"]["time"], "data": encode(encoding.data.tobytes())},
    )
    text = json.dumps(found, separators=(",", ":"))
    return {"feature_bytes": len(text), "encoding_bytes": encoding.data.nbytes}


def encode(data):
    return base64.b64encode(data).decode()
