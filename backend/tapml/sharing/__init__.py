"""One carved test by itself: exported as a file, shared as a link, imported again (docs/repro-format.md)."""

from tapml.sharing.document import ReproDocument
from tapml.sharing.files import FORMS, check_export, export, file_name, load_repro, read
from tapml.sharing.issue import issue_text
from tapml.sharing.repro import Repro, of_suite

__all__ = [
    "FORMS",
    "Repro",
    "ReproDocument",
    "check_export",
    "export",
    "file_name",
    "issue_text",
    "load_repro",
    "of_suite",
    "read",
]
