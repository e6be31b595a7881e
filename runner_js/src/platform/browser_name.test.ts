import { describe, expect, it } from "vitest";
import { browserName } from "./browser_name";

const CHROME =
  "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36";

describe("browserName", () => {
  it.each([
    ["Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0", "Firefox 153"],
    [CHROME, "Chromium 156"],
    [CHROME.replace("Chrome/", "HeadlessChrome/"), "Chromium 156"],
    [`${CHROME} Edg/155.0.0.0`, "Edge 155"],
    [CHROME.replace("X11; Linux x86_64", "Linux; Android 16"), "Chromium 156 on Android"],
    [
      "Mozilla/5.0 (iPhone; CPU iPhone OS 26_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Mobile/15E148 Safari/604.1",
      "Safari 26.1 on iPhone",
    ],
    [
      "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/60.5 Safari/605.1.15",
      "WebKitGTK",
    ],
    ["something else", "a browser"],
  ])("%s", (userAgent, name) => {
    expect(browserName(userAgent)).toBe(name);
  });

  it("tells Chrome by its brand", () => {
    expect(browserName(CHROME, ["Chromium", "Google Chrome"])).toBe("Chrome 156");
  });
});
