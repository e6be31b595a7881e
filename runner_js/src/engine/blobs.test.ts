import { afterEach, describe, expect, it, vi } from "vitest";
import { DeviceFailure } from "../hal/errors";
import { MAX_WGSL_BYTES } from "../protocol/messages";
import { Blobs, postDownloads } from "./blobs";

const ORIGIN = "http://server";
const { signal } = new AbortController();

function serve(respond: (url: string, init: RequestInit) => Response | Promise<Response>) {
  const fetched = vi.fn(async (url: string, init: RequestInit) => respond(url, init));
  vi.stubGlobal("fetch", fetched);
  return fetched;
}

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function errorOf(promise: Promise<unknown>) {
  const cause = await promise.catch((e: unknown) => e);
  if (!(cause instanceof DeviceFailure)) throw new Error(`not a DeviceFailure: ${cause}`);
  return cause.report;
}

describe("Blobs", () => {
  it("fetches a digest once, also when asked twice at a time", async () => {
    const fetched = serve(() => new Response("abcd"));
    const blobs = new Blobs(ORIGIN);
    const both = await Promise.all([blobs.load("d1", 4, signal), blobs.wgsl("d1", "add.wgsl", signal)]);
    expect(both[0].byteLength).toBe(4);
    expect(both[1]).toBe("abcd");
    await blobs.load("d1", 4, signal);
    expect(fetched.mock.calls.map(([url]) => url)).toEqual([`${ORIGIN}/blobs/d1`]);
  });

  it("names the digest when the length is wrong", async () => {
    serve(() => new Response("abc"));
    expect(await errorOf(new Blobs(ORIGIN).load("d1", 4, signal))).toEqual({
      kind: "fetch",
      message: "blob d1 has 3 bytes where its shape and dtype make 4",
    });
  });

  it("carries the server's sentence on, and tries again the next time", async () => {
    serve(() => Response.json({ error: "no blob d1" }, { status: 404 }));
    const blobs = new Blobs(ORIGIN);
    expect((await errorOf(blobs.load("d1", 4, signal))).message).toBe(
      "blob d1 could not be fetched: HTTP 404, no blob d1",
    );
    serve(() => new Response("abcd"));
    expect((await blobs.load("d1", 4, signal)).byteLength).toBe(4);
  });

  it("refuses WGSL of more than a file may have, by the file's name", async () => {
    serve(() => new Response("x".repeat(MAX_WGSL_BYTES + 1)));
    expect(await errorOf(new Blobs(ORIGIN).wgsl("d1", "add.wgsl", signal))).toEqual({
      kind: "compile",
      message: "add.wgsl: has more than the 4 MB that a WGSL file may have",
    });
    serve(() => new Response("x".repeat(MAX_WGSL_BYTES)));
    expect(await new Blobs(ORIGIN).wgsl("d1", "add.wgsl", signal)).toHaveLength(MAX_WGSL_BYTES);
  });

  it("says that the network failed, after trying again for half a minute", async () => {
    vi.useFakeTimers();
    const fetched = serve(() => Promise.reject(new TypeError("Failed to fetch")));
    const error = errorOf(new Blobs(ORIGIN).load("d1", 4, signal));
    await vi.advanceTimersByTimeAsync(20_000);
    const early = fetched.mock.calls.length;
    expect(early).toBeGreaterThan(20);
    await vi.advanceTimersByTimeAsync(120_000);
    expect(fetched.mock.calls.length).toBeGreaterThan(early);
    expect(await error).toEqual({ kind: "fetch", message: "blob d1 could not be fetched: Failed to fetch" });
  });

  it("gets over a network that fails for a moment", async () => {
    vi.useFakeTimers();
    const fetched = serve(() => new Response("abcd"));
    fetched.mockRejectedValueOnce(new TypeError("Failed to fetch"));
    fetched.mockRejectedValueOnce(new TypeError("Failed to fetch"));
    const loading = new Blobs(ORIGIN).load("d1", 100_000, signal).catch((cause: Error) => cause.message);
    await vi.advanceTimersByTimeAsync(1500);
    // It came; that it is too short is another matter.
    expect(await loading).toBe("blob d1 has 4 bytes where its shape and dtype make 100000");
    expect(fetched).toHaveBeenCalledTimes(3);
  });

  it("fetches again what broke off in the middle of a body", async () => {
    const broken = { ok: true, arrayBuffer: () => Promise.reject(new TypeError("terminated")) };
    const fetched = serve(() => new Response("abcd"));
    fetched.mockResolvedValueOnce(broken as unknown as Response);
    expect(await new Blobs(ORIGIN).wgsl("d1", "add.wgsl", signal)).toBe("abcd");
    expect(fetched).toHaveBeenCalledTimes(2);
  });

  it("does not try again what was given up, nor what is no network's error", async () => {
    const given = new AbortController();
    const fetched = serve(() => {
      given.abort();
      return Promise.reject(new TypeError("Failed to fetch"));
    });
    await errorOf(new Blobs(ORIGIN).wgsl("d1", "add.wgsl", given.signal));
    expect(fetched).toHaveBeenCalledTimes(1);
    const other = serve(() => Promise.reject(new Error("no such protocol")));
    expect((await errorOf(new Blobs(ORIGIN).wgsl("d1", "add.wgsl", signal))).message).toContain(
      "no such protocol",
    );
    expect(other).toHaveBeenCalledTimes(1);
  });

  it("sends its headers with every request", async () => {
    const fetched = serve(() => new Response("abcd"));
    const blobs = new Blobs(ORIGIN, { Cookie: "tapml-token=t" });
    await blobs.wgsl("d1", "add.wgsl", signal);
    await blobs.request("/x", { headers: { "X-Tapml": "1" }, signal });
    expect(fetched.mock.calls.map(([, init]) => init.headers)).toEqual([
      { Cookie: "tapml-token=t" },
      { Cookie: "tapml-token=t", "X-Tapml": "1" },
    ]);
  });

  it("fetches small blobs together, and alone where the group did not come", async () => {
    const bodies: Record<string, string> = { "d1+d2": "aabbb", d1: "aa", d2: "bbb" };
    const get = (url: string) => new Response(bodies[url.split("/").at(-1) ?? ""] ?? "");
    let fetched = serve(get);
    const blobs = new Blobs(ORIGIN);
    const both = () => Promise.all([blobs.load("d1", 2, signal), blobs.load("d2", 3, signal)]);
    const text = (data: ArrayBuffer) => new TextDecoder().decode(data);
    expect((await both()).map(text)).toEqual(["aa", "bbb"]);
    expect(fetched.mock.calls.map(([url]) => url)).toEqual([`${ORIGIN}/blobs/d1+d2`]);
    fetched = serve((url) => (url.includes("+") ? new Response("", { status: 404 }) : get(url)));
    const others = new Blobs(ORIGIN);
    const again = Promise.all([others.load("d1", 2, signal), others.load("d2", 3, signal)]);
    expect((await again).map(text)).toEqual(["aa", "bbb"]);
    expect(fetched).toHaveBeenCalledTimes(3);
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
    const blobs = new Blobs(ORIGIN);
    // Small ones of known length would travel together.
    await Promise.all(Array.from({ length: 40 }, (_, i) => blobs.load(`d${i}`, null, signal)));
    expect(most).toBe(8);
  });

  it("does not wait for a fetch that an abandoned call started", async () => {
    const abandoned = new AbortController();
    serve(() => new Promise<Response>(() => {}));
    const blobs = new Blobs(ORIGIN);
    void blobs.load("d1", null, abandoned.signal).catch(() => {});
    abandoned.abort();
    serve(() => new Response("x"));
    expect((await blobs.load("d1", null, signal)).byteLength).toBe(1);
  });
});

describe("Blobs.stream", () => {
  function body(...pieces: number[][]): Response {
    const stream = new ReadableStream({
      start(controller) {
        for (const piece of pieces) controller.enqueue(Uint8Array.from(piece));
        controller.close();
      },
    });
    return new Response(stream);
  }

  async function read(bytes: number): Promise<number[][]> {
    const pieces: number[][] = [];
    for await (const piece of new Blobs(ORIGIN).stream("d1", bytes, signal)) pieces.push([...piece]);
    return pieces;
  }

  it("gives pieces of whole words, and the rest last", async () => {
    serve(() => body([1], [2, 3], [4, 5, 6, 7, 8, 9], [10, 11, 12, 13, 14]));
    expect(await read(14)).toEqual([
      [1, 2, 3, 4, 5, 6, 7, 8],
      [9, 10, 11, 12],
      [13, 14],
    ]);
  });

  it("passes whole words on as they come", async () => {
    const fetched = serve(() => body([1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12]));
    expect(await read(12)).toEqual([
      [1, 2, 3, 4, 5, 6, 7, 8],
      [9, 10, 11, 12],
    ]);
    expect(fetched.mock.calls[0]?.[1]).toMatchObject({ cache: "no-store" });
  });

  it("names the digest when it is too short", async () => {
    serve(() => body([1, 2, 3, 4, 5, 6]));
    expect(await errorOf(read(8))).toEqual({
      kind: "fetch",
      message: "blob d1 has 6 bytes where its shape and dtype make 8",
    });
  });

  it("stops at once when it is too long", async () => {
    const cancelled = vi.fn();
    let given = 0;
    const endless = new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(4).fill(++given)),
      cancel: cancelled,
    });
    serve(() => new Response(endless));
    expect((await errorOf(read(8))).message).toMatch(
      /^blob d1 has \d+ bytes where its shape and dtype make 8$/,
    );
    expect(cancelled).toHaveBeenCalled();
    expect(given).toBeLessThan(10);
  });

  it("says why there is nothing", async () => {
    serve(() => Response.json({ error: "no blob d1" }, { status: 404 }));
    expect((await errorOf(read(8))).message).toBe("blob d1 could not be fetched: HTTP 404, no blob d1");
  });

  /** A body that breaks after its first `whole` bytes. */
  const breaking = (whole: number) => {
    const pieces = [Uint8Array.from({ length: whole }, (_, i) => i + 1)];
    return new ReadableStream({
      pull(controller) {
        const piece = pieces.pop();
        if (piece) controller.enqueue(piece);
        else controller.error(new TypeError("terminated"));
      },
    });
  };

  it("goes on where the network broke in the middle", async () => {
    const bodies = [breaking(5), breaking(3)];
    serve(() => {
      const broken = bodies.shift();
      return broken ? new Response(broken) : body([1, 2, 3, 4, 5, 6, 7, 8]);
    });
    expect((await read(8)).flatMap((piece) => [...piece])).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it("gives up a network that breaks again and again", async () => {
    serve(() => new Response(breaking(4)));
    expect(await errorOf(read(8))).toEqual({
      kind: "fetch",
      message: "blob d1 could not be fetched: terminated",
    });
  });
});

describe("postDownloads", () => {
  const bytes = (...values: number[]) => Uint8Array.from(values);
  const bodyOf = async (init: RequestInit | undefined) => {
    return new Uint8Array(await new Response(init?.body ?? null).arrayBuffer());
  };

  it("posts to the call with the header that a foreign page cannot send", async () => {
    const fetched = serve(() => Response.json({}));
    await postDownloads(new Blobs(ORIGIN, { Cookie: "c" }), "a/b", [bytes(1, 2)], signal);
    const [url, init] = fetched.mock.calls[0] ?? [];
    expect(url).toBe(`${ORIGIN}/api/calls/a%2Fb/downloads`);
    expect(init).toMatchObject({
      method: "POST",
      headers: { Cookie: "c", "X-Tapml": "1", "Content-Type": "application/octet-stream" },
    });
    expect(await bodyOf(init)).toEqual(bytes(1, 2));
  });

  it("sends several as one body, in order", async () => {
    const fetched = serve(() => Response.json({}));
    await postDownloads(new Blobs(ORIGIN), "c", [bytes(1, 2), bytes(), bytes(3)], signal);
    expect(await bodyOf(fetched.mock.calls[0]?.[1])).toEqual(bytes(1, 2, 3));
  });

  it("says why it was refused", async () => {
    serve(() => Response.json({ error: "too large" }, { status: 413 }));
    expect((await errorOf(postDownloads(new Blobs(ORIGIN), "c", [], signal))).message).toBe(
      "the downloads were refused: HTTP 413, too large",
    );
  });
});
