import { afterEach, describe, expect, it, vi } from "vitest";
import { DeviceFailure } from "../hal/errors";
import { Blobs, postDownloads } from "./blobs";

const { signal } = new AbortController();

function serve(respond: (url: string, init: RequestInit) => Response | Promise<Response>) {
  const fetched = vi.fn(async (url: string, init: RequestInit) => respond(url, init));
  vi.stubGlobal("fetch", fetched);
  return fetched;
}

afterEach(() => {
  vi.unstubAllGlobals();
});

async function errorOf(promise: Promise<unknown>) {
  const cause = await promise.catch((e: unknown) => e);
  if (!(cause instanceof DeviceFailure)) throw new Error(`not a DeviceFailure: ${cause}`);
  return cause.error;
}

describe("Blobs", () => {
  it("fetches a digest once, also when asked twice at a time", async () => {
    const fetched = serve(() => new Response("abcd"));
    const blobs = new Blobs();
    const both = await Promise.all([blobs.load("d1", 4, signal), blobs.text("d1", signal)]);
    expect(both[0].byteLength).toBe(4);
    expect(both[1]).toBe("abcd");
    await blobs.load("d1", 4, signal);
    expect(fetched.mock.calls.map(([url]) => url)).toEqual(["/blobs/d1"]);
  });

  it("names the digest when the length is wrong", async () => {
    serve(() => new Response("abc"));
    expect(await errorOf(new Blobs().load("d1", 4, signal))).toEqual({
      kind: "fetch",
      message: "blob d1 has 3 bytes where its shape and dtype make 4",
    });
  });

  it("carries the server's sentence on, and tries again the next time", async () => {
    serve(() => Response.json({ error: "no blob d1" }, { status: 404 }));
    const blobs = new Blobs();
    expect((await errorOf(blobs.load("d1", 4, signal))).message).toBe(
      "blob d1 could not be fetched: HTTP 404, no blob d1",
    );
    serve(() => new Response("abcd"));
    expect((await blobs.load("d1", 4, signal)).byteLength).toBe(4);
  });

  it("says that the network failed", async () => {
    serve(() => Promise.reject(new TypeError("Failed to fetch")));
    expect((await errorOf(new Blobs().load("d1", 4, signal))).message).toContain("Failed to fetch");
  });

  it("has 8 fetches under way at most", async () => {
    let underway = 0;
    let most = 0;
    serve(async () => {
      most = Math.max(most, ++underway);
      await new Promise((resolve) => setTimeout(resolve, 1));
      underway--;
      return new Response("x");
    });
    const blobs = new Blobs();
    await Promise.all(Array.from({ length: 40 }, (_, i) => blobs.load(`d${i}`, 1, signal)));
    expect(most).toBe(8);
  });

  it("does not wait for a fetch that an abandoned call started", async () => {
    const abandoned = new AbortController();
    serve(() => new Promise<Response>(() => {}));
    const blobs = new Blobs();
    void blobs.load("d1", 1, abandoned.signal).catch(() => {});
    abandoned.abort();
    serve(() => new Response("x"));
    expect((await blobs.load("d1", 1, signal)).byteLength).toBe(1);
  });
});

describe("postDownloads", () => {
  it("posts to the call with the header that a foreign page cannot send", async () => {
    const fetched = serve(() => Response.json({}));
    await postDownloads("a/b", new Blob(["xyz"]), signal);
    const [url, init] = fetched.mock.calls[0] ?? [];
    expect(url).toBe("/api/calls/a%2Fb/downloads");
    expect(init).toMatchObject({
      method: "POST",
      headers: { "X-Tapml": "1", "Content-Type": "application/octet-stream" },
    });
  });

  it("says why it was refused", async () => {
    serve(() => Response.json({ error: "too large" }, { status: 413 }));
    expect((await errorOf(postDownloads("c", new Blob([]), signal))).message).toBe(
      "the downloads were refused: HTTP 413, too large",
    );
  });
});
