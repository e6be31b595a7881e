"""What came of a job, defined once: docs/results-format.md is the prose, docs/results.schema.json is made from it.

`python -m tapml.results` prints the JSON Schema; webui and runner_js/repro have their types from it (`make schemas`).
"""

from tapml.protocol.methods import Verdict
from tapml.results.base import DeviceDocument, DeviceFacts, Header
from tapml.results.checks import RESULTS, TEST_RESULT, VALIDATION_HEADER
from tapml.results.locate import LocateDocument
from tapml.results.offload import OffloadDocument
from tapml.results.reduce import ReduceDocument
from tapml.results.run import RunDocument
from tapml.results.validation import Measured, TestResult, ValidationDocument, ValidationHeader, counts
from tapml.results.verdicts import FAILING, SEVERITY, VERDICTS, verdict_counts

__all__ = [
    "FAILING",
    "RESULTS",
    "SEVERITY",
    "TEST_RESULT",
    "VALIDATION_HEADER",
    "VERDICTS",
    "DeviceDocument",
    "DeviceFacts",
    "Header",
    "LocateDocument",
    "Measured",
    "OffloadDocument",
    "ReduceDocument",
    "RunDocument",
    "TestResult",
    "ValidationDocument",
    "ValidationHeader",
    "Verdict",
    "counts",
    "verdict_counts",
]
