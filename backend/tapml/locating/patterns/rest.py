"""What can be said where nothing else fits."""

from __future__ import annotations

import numpy as np

from tapml.compare.elements import largest
from tapml.locating.evidence import Evidence, Finding, short
from tapml.locating.regions import box_of, first


def detect(evidence: Evidence) -> list[Finding]:
    """Noise everywhere, or some elements without a pattern; true of every mismatch, and weak."""
    if not evidence.count:
        return []
    total = evidence.wrong.size
    errors = evidence.error[evidence.wrong]
    most = largest(errors)
    strange = int((~np.isfinite(errors)).sum())
    also = f", and {strange} are NaN or infinite" if strange else ""
    details = {"elements": evidence.count, "total": total, "largest_error": most, "first": first(evidence.wrong)}
    if total == 1:
        text = f"the only element is {short(evidence.g.item())} instead of {short(evidence.e.item())}"
        return [Finding("scattered", text, 0.15, details)]
    mask = evidence.finite
    if evidence.count >= 0.5 * total and mask.sum() >= 16:
        g, e = evidence.g[mask], evidence.e[mask]
        related = float(np.corrcoef(g, e)[0, 1]) if np.ptp(g) > 0 and np.ptp(e) > 0 else 0.0
        middle = float(np.median(evidence.error[mask]))
        how = "follow the expected values" if related > 0.9 else "have little to do with the expected values"
        text = (
            f"{evidence.count} of {total} elements are wrong and {how} (correlation {related:.3f}); "
            f"half of the errors are above {short(middle)}, the largest is {short(most)}{also}"
        )
        return [Finding("noise", text, 0.25, {**details, "correlation": related, "median_error": middle})]
    words = box_of(evidence.wrong).words()
    text = f"{evidence.count} of {total} elements are wrong, the first {details['first']} ({words})"
    text += f"; the largest error is {short(most)}{also}" if strange < evidence.count else "; all are NaN or infinite"
    return [Finding("scattered", text, 0.15, details)]
