"""A view of an item's page, from enter to exit: its feature, and the words by which a model encodes that.

The device runs it where the events are; the cloud, with the same code, where they arrive.
"""

import re
import zlib

BUCKETS = 256
"""Words are counted by their hash."""

_WORD = re.compile(r"[a-z][a-z0-9+]{2,}")
_VIEWED, _CLICKED, _EXPOSED = 1.0, 0.5, 0.1


def feature(events):
    """`events`: those of one stay, in order. The first exposure of an item is the page's own."""
    entered, last = events[0], events[-1]
    exposed = {}
    for event in events:
        if event["kind"] == "exposure":
            exposed.setdefault(event["id"], event)
    scrolls = [event["contents"]["y"] for event in events if event["kind"] == "scroll"]
    clicked = [event["id"] for event in events if event["kind"] == "click" and event["id"] != "click"]
    item = entered["page"].partition(":")[2]
    own = exposed.get(item)
    return {
        "item": item,
        "seconds": (last["time"] - entered["time"]) / 1000,
        "scrolls": len(scrolls),
        "depth": max(scrolls, default=0),
        "words": words([own["contents"]] if own else []),
        "exposed": [
            [name, event["contents"]["position"], (event["time"] - entered["time"]) / 1000]
            for name, event in exposed.items()
            if name != item
        ],
        "exposed_words": words([event["contents"] for name, event in exposed.items() if name != item], most=24),
        "clicked": clicked,
        "clicked_words": words([exposed[name]["contents"] for name in clicked if name in exposed], most=24),
        "interest": last["contents"].get("interest", {}),
    }


def words(items, most=48):
    """How often each word is in what is told of items, as pairs of bucket and count: those that are there most."""
    counts = {}
    for item in items:
        text = f"{item['name']} {item['summary']} {' '.join(item['keywords'])} {item['description']}"
        for word in _WORD.findall(text.lower()):
            bucket = zlib.crc32(word.encode()) % BUCKETS
            counts[bucket] = counts.get(bucket, 0) + 1
    found = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [list(pair) for pair in found[:most]]


def bag(found):
    """What the model is given of a feature: 256 weights, whose squares add up to 1."""
    weights = [0.0] * BUCKETS
    for share, pairs in (
        (_VIEWED, found["words"]),
        (_CLICKED, found["clicked_words"]),
        (_EXPOSED, found["exposed_words"]),
    ):
        for bucket, count in pairs:
            weights[bucket] += share * count
    length = sum(weight * weight for weight in weights) ** 0.5
    return [weight / length for weight in weights] if length else weights
