import { describe, expect, it } from "vitest";
import { type Clock, patient, retryAfter } from "./patience";

/** Time that passes where somebody sleeps. */
class Time implements Clock {
  at = 1000;
  readonly slept: number[] = [];
  chance = 0;
  now = () => this.at;
  random = () => this.chance;
  sleep = async (milliseconds: number, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    this.slept.push(milliseconds);
    this.at += milliseconds;
  };
}

/** Answers these, one after the other, the last one for ever; counts its requests. */
function answering(...given: [number, string?][]) {
  const asked = { count: 0 };
  const get = (async () => {
    const [status, after] = given[Math.min(asked.count++, given.length - 1)] as [number, string?];
    return new Response("said", { status, headers: after === undefined ? {} : { "Retry-After": after } });
  }) as typeof fetch;
  return { asked, get };
}

const never = new AbortController().signal;

describe("a service that says when to come back", () => {
  it("is asked again then, and a little later", async () => {
    const time = new Time();
    time.chance = 1;
    const { asked, get } = answering([429, "10"], [200]);
    expect((await patient(get, never, time)("https://a/")).status).toBe(200);
    expect([asked.count, time.slept]).toEqual([2, [12_500]]);
  });

  it("is not asked by the other requests either, before", async () => {
    const time = new Time();
    const { asked, get } = answering([429, "10"], [200], [200]);
    const fetched = patient(get, never, time);
    const statuses = await Promise.all([fetched("https://a/1"), fetched("https://a/2")]);
    expect(statuses.map(({ status }) => status)).toEqual([200, 200]);
    const before = asked.count;
    time.at = 0; // within the wait that was told
    await fetched("https://a/3");
    expect(asked.count).toBe(before + 1);
    expect(time.at).toBe(11_000);
  });

  it("without a time waits longer each time, five times at most", async () => {
    const time = new Time();
    const { asked, get } = answering([429]);
    expect((await patient(get, never, time)("https://a/")).status).toBe(429);
    expect([asked.count, time.slept]).toEqual([5, [1000, 2000, 4000, 8000]]);
  });

  it.each([
    ["more than two minutes", [429, "121"]],
    ["503 that does not say when", [503]],
    ["another status", [404, "1"]],
  ] as [string, [number, string?]][])("is taken at its word: %s", async (_, given) => {
    const time = new Time();
    const { asked, get } = answering(given);
    expect((await patient(get, never, time)("https://a/")).status).toBe(given[0]);
    expect([asked.count, time.slept]).toEqual([1, []]);
  });

  it("is not waited for by who was closed, with the real clock too", async () => {
    const ended = new AbortController();
    const { asked, get } = answering([429, "100"]);
    const waits = patient(get, ended.signal)("https://a/");
    await expect.poll(() => asked.count).toBe(1);
    ended.abort(new Error("closed"));
    await expect(waits).rejects.toThrow("closed");
    expect(asked.count).toBe(1);
  });
});

it("reads seconds and dates", () => {
  const now = Date.parse("Fri, 27 Nov 2026 09:00:00 GMT");
  expect(retryAfter("7", now)).toBe(7000);
  expect(retryAfter("Fri, 27 Nov 2026 09:01:00 GMT", now)).toBe(60_000);
  expect(retryAfter("Fri, 27 Nov 2026 08:01:00 GMT", now)).toBe(0);
  for (const text of [null, "", "-1", "1.5", "soon", "1e3", "27 Nov 2026"])
    expect(retryAfter(text, now)).toBe(null);
});
