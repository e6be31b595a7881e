"""Every view of the studio as axe sees it, in both themes."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.studio import views

from pages import PLAIN, VIEWPORT, People
from tapml.server import Server


@pytest.mark.slow
def test_axe_finds_nothing_in_any_view(people: People, suite: Path) -> None:
    with Server([suite]) as server:
        views.run(server, "validation")
        views.broken(suite)
        for kind in ("validation", "locate", "offload"):
            views.run(server, kind)
        # Not `opened`: pages that are not there are among the views, and an error on the console.
        page = people.browser(PLAIN).new_page(viewport=VIEWPORT, bypass_csp=True)  # type: ignore[arg-type]
        found = [one for view in views.views(page, server) for one in views.asked(page, view())]
        page.close()
    assert found == []
