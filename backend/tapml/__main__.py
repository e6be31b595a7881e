"""`python -m tapml`."""

import sys

from tapml.cli import main

sys.exit(main())
