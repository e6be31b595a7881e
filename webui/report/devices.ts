/** What the tests ran on: adapter, features, limits, a picture of the page. */

import type { RunDeviceDocument } from "../src/api/generated/results";
import { adapter, browser, seconds } from "../src/model/format";
import type { Report } from "./data";
import { el, facts } from "./dom";

export function devices({ document, screenshots }: Report): HTMLElement {
  const section = el("section", {}, el("h2", {}, "Devices"));
  const times = document.summary.devices;
  for (const device of document.devices)
    section.append(card(device, screenshots[device.id], times[device.id]?.wall));
  return section;
}

function card(
  device: RunDeviceDocument,
  screenshot: string | undefined,
  wall: number | undefined,
): HTMLElement {
  const limits = Object.entries(device.limits).sort(([a], [b]) => (a < b ? -1 : 1));
  const box = el(
    "article",
    { class: "card device" },
    el(
      "div",
      {},
      el("h3", {}, device.requested, el("span", { class: "muted" }, ` ${device.name}`)),
      device.unavailable ? el("p", { class: "row problem" }, `No WebGPU: ${device.unavailable}`) : null,
      facts(
        [
          ["adapter", adapter(device.adapter) || "not named"],
          ["vendor", device.adapter.vendor],
          ["architecture", device.adapter.architecture],
          ["browser", browser(device.user_agent)],
          ["driven by", device.driver],
          ["user agent", device.user_agent],
          ["features", device.features.join(", ") || "none"],
          ["took", wall !== undefined && seconds(wall)],
        ],
        "facts",
      ),
      limits.length > 0
        ? el(
            "details",
            {},
            el("summary", {}, `${limits.length} limits`),
            facts(
              limits.map(([name, value]) => [name, String(value)] as const),
              "facts small limits",
            ),
          )
        : null,
    ),
  );
  if (screenshot && /^[A-Za-z0-9+/=]+$/.test(screenshot)) box.append(picture(device, screenshot));
  return box;
}

/** Small beside the facts; pressed, as wide as the page. */
function picture(device: RunDeviceDocument, png: string): HTMLElement {
  const alt = `The page in ${device.name} at the end of the run`;
  const button = el(
    "button",
    { type: "button", class: "picture", "aria-pressed": "false" },
    el("img", { src: `data:image/png;base64,${png}`, alt }),
  );
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
  });
  return button;
}
