import { isWebKitGtk } from "../hal/unavailable";

const BRANDS: [RegExp, string][] = [
  [/\bFirefox\/(\d+)/, "Firefox"],
  [/\bFxiOS\/(\d+)/, "Firefox"],
  [/\bEdg(?:A|iOS)?\/(\d+)/, "Edge"],
  [/\bOPR\/(\d+)/, "Opera"],
  [/\bSamsungBrowser\/(\d+)/, "Samsung Internet"],
  [/\bCriOS\/(\d+)/, "Chrome"],
  [/\b(?:Headless)?Chrom(?:e|ium)\/(\d+)/, "Chromium"],
  [/\bVersion\/(\d+(?:\.\d+)?).*\bSafari\//, "Safari"],
];

/** "Chromium 156", "Safari 26.1 on iPhone"; `brands` are those of navigator.userAgentData, where it exists. */
export function browserName(userAgent: string, brands: readonly string[] = []): string {
  if (isWebKitGtk(userAgent)) return "WebKitGTK";
  const host = /\b(Android|iPhone|iPad)\b/.exec(userAgent)?.[1];
  const where = host ? ` on ${host}` : "";
  for (const [pattern, name] of BRANDS) {
    const version = pattern.exec(userAgent)?.[1];
    if (!version) continue;
    // Chrome and Chromium have the same user agent.
    const shown = name === "Chromium" && brands.includes("Google Chrome") ? "Chrome" : name;
    return `${shown} ${version}${where}`;
  }
  return `a browser${where}`;
}
