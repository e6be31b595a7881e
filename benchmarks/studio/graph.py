"""The graph of a deep model: until it is drawn, while it moves, until a node tells about itself."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page

from tapml.server import Server

SIZE = {"width": 1440, "height": 900}

_WATCH = """
window.watched = { drawn: null, data: null, details: null, clicked: null };
new MutationObserver(() => {
  const found = window.watched;
  if (found.drawn === null && document.querySelector('.picture .box')) {
    requestAnimationFrame(() => setTimeout(() => { found.drawn ??= performance.now(); }));
  }
  const node = new URLSearchParams(location.search).get('node');
  if (found.clicked !== null && node && document.querySelector(`.pane-detail[aria-label='Node ${node}']`)) {
    const since = found.clicked;
    found.clicked = null;
    requestAnimationFrame(() => setTimeout(() => { found.details = performance.now() - since; }));
  }
}).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ['aria-label'] });
addEventListener('click', (event) => { window.watched.clicked = event.timeStamp; }, true);
"""

_DATA = """() => performance.getEntriesByType('resource')
  .find(({ name }) => /api\\/suites\\/[^/]+$/.test(name)).responseEnd"""

_SCRIPTS = """() => performance.getEntriesByType('resource')
  .filter(({ name }) => name.endsWith('.js')).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)"""

_FRAMES = """() => {
  const frames = window.frames_ = [];
  let last = null;
  const next = (now) => {
    if (window.frames_ !== frames) return;
    if (last !== null) frames.push(now - last);
    last = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}"""


_TO_CLICK = """(at) => [...document.querySelectorAll('.picture .box-kernel:not(.selected)')].flatMap((box) => {
  const { x, y, width, height } = box.getBoundingClientRect();
  const middle = [x + width / 2, y + height / 2];
  return box.contains(document.elementFromPoint(...middle)) ? [middle] : [];
}).at(at)"""


@dataclass(frozen=True)
class Looked:
    """One fresh page. Milliseconds, but `script_bytes`."""

    opened: float
    drawn: float
    """Since the graph's data had come."""
    frame_p95: float
    frames_a_second: float
    click: float
    script_bytes: float


def look(browser: Browser, suite: Path, rounds: int) -> list[Looked]:
    with Server([suite]) as server:
        address = f"{server.url}/suites/{server.suite_ids[0]}"
        return [_looked(browser, address) for _ in range(rounds)]


def _looked(browser: Browser, address: str) -> Looked:
    page = browser.new_page(viewport=SIZE, bypass_csp=True)  # type: ignore[arg-type]
    page.add_init_script(_WATCH)
    page.goto(address)
    page.wait_for_function("watched.drawn !== null")
    opened = page.evaluate("watched.drawn")
    clicks = [_clicked(page, at) for at in (0, 1, 2, 0, 1)]
    page.keyboard.press("Escape")
    _unfolded(page)
    frames = _moved(page)
    found = Looked(
        opened=opened,
        drawn=opened - page.evaluate(_DATA),
        frame_p95=statistics.quantiles(frames, n=20)[-1],
        frames_a_second=1000 * len(frames) / sum(frames),
        click=statistics.median(clicks),
        script_bytes=page.evaluate(_SCRIPTS),
    )
    page.close()
    return found


def _unfolded(page: Page) -> None:
    """All nodes, none of them in a folded block."""
    for name in ("Fold", "Unfold"):
        button = page.get_by_role("button", name=name, exact=True)
        if button.is_visible():
            button.click()
    page.locator(".picture .box-kernel").nth(20).wait_for(state="attached")


def _moved(page: Page) -> list[float]:
    """Frames of a hand that drags the picture, zooms out until all of it is seen, drags that, and zooms in again."""
    box = page.locator(".picture").bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)

    def drag(page: Page) -> None:
        for way in (-1, 1):
            page.mouse.down()
            for at in range(40):
                page.mouse.move(middle[0] + way * at, middle[1] + way * 7 * (at if at < 20 else 40 - at))
            page.mouse.up()
            for _ in range(30):
                page.mouse.wheel(0, -way * 120)

    return frames_of(page, drag)


def frames_of(page: Page, act: Callable[[Page], None]) -> list[float]:
    """Milliseconds of each frame that is drawn while a hand does something."""
    page.evaluate(_FRAMES)
    act(page)
    frames: list[float] = page.evaluate("() => { const found = frames_; frames_ = null; return found; }")
    return frames


def _clicked(page: Page, at: int) -> float:
    """Of another node each time."""
    page.evaluate("watched.details = null")
    page.mouse.click(*page.evaluate(_TO_CLICK, at))
    page.wait_for_function("watched.details !== null")
    milliseconds: float = page.evaluate("watched.details")
    return milliseconds
