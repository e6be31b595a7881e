/** Sentences for a device that cannot run kernels: what is missing and what to switch on. */

/** WebKit on Linux calls itself a Safari of a version that there is not. */
export function isWebKitGtk(userAgent: string): boolean {
  return (
    /\bLinux\b.*\bVersion\/.*\bSafari\//.test(userAgent) && !/\b(?:Chrom\w+\/|Android\b)/.test(userAgent)
  );
}

function browserOf(userAgent: string): "firefox" | "safari" | "webkitgtk" | "chromium" {
  if (isWebKitGtk(userAgent)) return "webkitgtk";
  if (/Firefox\//.test(userAgent)) return "firefox";
  if (/Chrome\/|Chromium\/|CriOS\//.test(userAgent)) return "chromium";
  return /Safari\//.test(userAgent) ? "safari" : "chromium";
}

export function withoutWebGpu(userAgent: string, secure: boolean, address: string): string {
  if (!secure) {
    return (
      `Browsers offer WebGPU only on secure pages and ${address} is none: open the page by https, ` +
      "or by http://127.0.0.1 on the server's own machine."
    );
  }
  switch (browserOf(userAgent)) {
    case "firefox":
      return "This Firefox offers no WebGPU: set dom.webgpu.enabled to true in about:config and reload.";
    case "safari":
      return "This Safari offers no WebGPU: it needs Safari 26 or later (macOS 26, iOS 26, iPadOS 26).";
    case "webkitgtk":
      return "WebKitGTK has no WebGPU: open this page in Chromium or Firefox, or in Safari 26 on a Mac or iPhone.";
    case "chromium":
      return (
        "This browser offers no WebGPU: it needs Chrome, Edge or Chromium 113 or later; " +
        "on Linux enable chrome://flags/#enable-unsafe-webgpu and restart it."
      );
  }
}

export function withoutAdapter(userAgent: string): string {
  switch (browserOf(userAgent)) {
    case "firefox":
      return (
        "Firefox found no GPU adapter: set gfx.webgpu.ignore-blocklist to true in about:config and restart, " +
        "and see about:support, section Graphics."
      );
    case "safari":
      return "Safari found no GPU adapter on this machine.";
    case "webkitgtk":
      return "WebKitGTK found no GPU adapter on this machine.";
    case "chromium":
      return (
        "The browser found no GPU adapter: enable chrome://flags/#enable-unsafe-webgpu (or start it with " +
        "--enable-unsafe-webgpu), restart it, and see chrome://gpu."
      );
  }
}
