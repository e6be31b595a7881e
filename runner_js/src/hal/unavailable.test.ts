import { describe, expect, it } from "vitest";
import { withoutAdapter, withoutWebGpu } from "./unavailable";

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";
const CHROMIUM =
  "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36";
const SAFARI =
  "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15";
const WEBKITGTK =
  "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/60.5 Safari/605.1.15";

describe("what to switch on", () => {
  it("is https first, whatever the browser", () => {
    expect(withoutWebGpu(FIREFOX, false, "http://192.168.1.4:8000")).toMatch(
      /http:\/\/192\.168\.1\.4:8000.*https/,
    );
  });

  it("is named for the browser at hand", () => {
    expect(withoutWebGpu(FIREFOX, true, "")).toContain("dom.webgpu.enabled");
    expect(withoutWebGpu(CHROMIUM, true, "")).toContain("chrome://flags/#enable-unsafe-webgpu");
    expect(withoutWebGpu(SAFARI, true, "")).toContain("Safari 26");
    expect(withoutWebGpu(WEBKITGTK, true, "")).toContain("WebKitGTK has no WebGPU");
    expect(withoutAdapter(FIREFOX)).toContain("gfx.webgpu.ignore-blocklist");
    expect(withoutAdapter(CHROMIUM)).toContain("--enable-unsafe-webgpu");
    expect(withoutAdapter(SAFARI)).toContain("no GPU adapter");
  });
});
