"""Some of the 100,000 mutated models of `make bench-fuzz-compiled`: of three by hand."""

from __future__ import annotations

import json

from benchmarks.compiled_fuzz.check import Pages, check

from compiled_models import appended, beside, chained, growing, looped


def test_both_verifiers_say_the_same_and_nothing_accepted_leaves_its_buffers() -> None:
    by_hand = {
        "chained": chained(),
        "looped": looped(),
        "growing": growing(),
        "appended": appended(),
        "beside": beside(),
    }
    documents = {name: json.dumps(found) for name, found in by_hand.items()}
    with Pages() as pages:
        found = check(documents, pages, 1_000_000, 600)
    assert found.failures == []
    # All of these happen: else the documents are too bad, or too good, to say anything.
    assert found.documents == 600
    assert found.refused_form > 50
    assert found.refused_proof > 50
    assert found.simulated > 30
    assert found.sentences == 0
