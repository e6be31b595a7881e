import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Agent, AgentOptions, Emitted, Place, TaskRun } from "./api";
import { createAgent } from "./index";
import { spawn } from "./node";
import { SERVICE, Service } from "./published.testing";
import { memoryStore } from "./store";
import { HeldTask } from "./task";
import type { Vm } from "./vm";

/** As `npm run build` and `npm run build:python` made it. */
const BASE = new URL("../../../backend/tapml/server/static/agent/", import.meta.url).href;
const MAIN = `
import asyncio, tapml

seen = 0

async def run(event):
    global seen
    seen += 1
    what = event.get("do")
    if what == "spin":
        while True: pass
    if what == "hold on":
        while True:
            try:
                while True: pass
            except KeyboardInterrupt: pass
    if what == "raise":
        raise ValueError("no such item")
    if what == "emit":
        tapml.emit("feature", {"seen": seen})
        tapml.emit("secret", 1)
    if what == "fetch":
        return (await tapml.fetch(event["url"])).body.decode()
    if what == "keep":
        for i in range(event["rows"]):
            tapml.table("scores").add(item=f"{event['name']} {i}", score=float(i), times=2**62 + i, thumb=b"\\0\\xff")
        return await tapml.flush()
    if what == "sql":
        return repr(await tapml.sql(event["text"], *event["values"]))
    if what == "add":
        tapml.table(event["table"]).add(**event["row"])
        return repr(await tapml.sql("SELECT times FROM scores WHERE item = 'added'"))
    if what == "forge":
        for row in ([1, 2, 3, 4], "text", None, [], [{}, [], 1, 1]):
            agent = __import__("_tapml_agent")
            try:
                agent.add("scores", row)
                return "taken"
            except BaseException: pass
        return (await tapml.sql("SELECT count(*) AS n FROM scores"))[0]["n"]
    if what == "flood":
        for i in range(event["values"]):
            tapml.emit("feature", event["value"])
    if what == "ask":
        asked = await asyncio.gather(*(tapml.fetch(event["url"]) for _ in range(event["times"])), return_exceptions=True)
        return [str(one) for one in asked if isinstance(one, Exception)]
    if what == "double an array":
        import tapml.arrays as np
        x = np.asarray([event["x"]], dtype="float32").T
        return np.asarray((await tapml.load("model").run({"x": x}))["y"]).sum().item()
    if what == "double":
        return (await tapml.load("model").run({"x": event["x"]}))["y"].tolist()
    return seen
`;

let agent: Agent;
let service: Service;
const emitted: Emitted[] = [];
const stored: Place[] = [];
const closed: string[] = [];

/** A model that doubles, as the runtime gives one. */
const load: AgentOptions["load"] = async (url, options) => {
  const text = await (await options.fetch(`${url}model.json`)).text();
  return {
    outputs: [{ name: "y", shape: [3] }],
    run: async ({ x }) => ({
      y: (x as unknown as { data: Float32Array }).data.map((value) => value * Number(text)),
    }),
    dispose: () => void closed.push(url),
  };
};

beforeAll(async () => {
  service = await Service.make();
  const needs = { seconds: 2, network: ["https://open.example", "https://shut.example"], models: ["model/"] };
  const scores = { item: "text", score: "real", times: "integer", thumb: "blob" };
  const keeps = { tables: { scores }, buffer: 10 };
  const configuration = JSON.stringify({
    format: "tapml.task-configuration/1",
    emits: ["feature"],
    keeps,
    needs,
  });
  const files = { "task.json": configuration, "main.py": MAIN, "model/model.json": "2" };
  const offers = [await service.publish("shop/a", "1", files), await service.publish("shop/b", "1", files)];
  service.answer = { install: offers, remove: [] };
  const get = (async (url: string, init: RequestInit) =>
    String(url).includes("open.example")
      ? new Response(`${init.credentials} ${url}`)
      : await service.fetch(url, init)) as typeof fetch;
  const network = ["https://open.example"];
  agent = await createAgent({
    ...{
      service: SERVICE,
      key: service.key,
      app: "1",
      store: memoryStore(),
      fetch: get,
      network,
      load,
      base: BASE,
      spawn,
    },
  });
  agent.on("emitted", (one) => emitted.push(one));
  agent.on("storage", (place) => stored.push(place));
  await agent.pull();
});
afterAll(() => agent.close());

const run = (event: unknown, name = "shop/a"): Promise<TaskRun> =>
  (agent.tasks.get(name) as NonNullable<ReturnType<Agent["tasks"]["get"]>>).start(event);

describe("a task in Python, in a worker of its own", () => {
  it("runs, keeps its state from run to run, and knows nothing of another task's", {
    timeout: 180_000,
  }, async () => {
    expect((await run({})).result).toBe(1);
    expect((await run({})).result).toBe(2);
    expect((await run({}, "shop/b")).result).toBe(1);
  });

  it("emits what it declared, and nothing else", async () => {
    const found = await run({ do: "emit" });
    expect(found.failure?.message).toContain("task.json does not declare that it emits secret");
    expect(emitted.map(({ task, name, value }) => ({ task, name, value }))).toEqual([
      { task: "shop/a", name: "feature", value: { seen: 3 } },
    ]);
  });

  it("is told where it emits or asks for too much, and the page has what came before", {
    timeout: 180_000,
  }, async () => {
    const last = async (event: object) =>
      (await run(event, "shop/b")).failure?.message.trim().split("\n").at(-1);
    emitted.length = 0;
    expect(await last({ do: "flood", values: 1001, value: 7 })).toContain("a run emits at most 1000 values");
    expect(emitted).toHaveLength(1000);
    expect(await last({ do: "flood", values: 1, value: "x".repeat(999_999) })).toContain(
      "a value that is emitted has at most 1000000 characters of JSON",
    );
    const { result } = await run({ do: "ask", times: 110, url: "https://open.example/a" });
    expect(result).toEqual(Array(10).fill("100 requests of it wait already"));
    expect((await run({}, "shop/b")).failed).toBe(false);
  });

  it("fetches where it declared to and the page allows it, without cookies", async () => {
    expect((await run({ do: "fetch", url: "https://open.example/a" })).result).toBe(
      "omit https://open.example/a",
    );
    const refused = async (url: string) => (await run({ do: "fetch", url })).failure?.message;
    expect(await refused("https://shut.example/")).toContain(
      "the page does not let tasks fetch from https://shut.example",
    );
    expect(await refused("https://evil.example/")).toContain(
      "task.json does not declare https://evil.example",
    );
  });

  it("runs a compiled model of its version", async () => {
    expect((await run({ do: "double", x: [1, 2.5, -3] })).result).toEqual([2, 5, -6]);
    expect((await run({ do: "double an array", x: [1, 2.5, -3] })).result).toBe(1);
  });

  it("keeps rows in tables of its own, which another task's SQL does not find", {
    timeout: 180_000,
  }, async () => {
    expect((await run({ do: "keep", name: "a", rows: 25 })).result).toBe("memory");
    expect((await run({ do: "keep", name: "b", rows: 3 }, "shop/b")).result).toBe("memory");
    const asked = { do: "sql", text: "SELECT * FROM scores WHERE score >= ? ORDER BY score", values: [24] };
    expect((await run(asked)).result).toBe(
      "[{'item': 'a 24', 'score': 24.0, 'times': 4611686018427387928, 'thumb': b'\\x00\\xff'}]",
    );
    const count = "SELECT count(*) AS n, min(item) AS first FROM scores";
    expect((await run({ do: "sql", text: count, values: [] }, "shop/b")).result).toBe(
      "[{'n': 3, 'first': 'b 0'}]",
    );
    expect((await agent.sql("shop/a", count)).rows).toEqual([[25, "a 0"]]);
    await expect(agent.sql("shop/a", "DROP TABLE scores")).rejects.toThrow("SQL to shop/a: not authorized");
    expect(stored).toEqual([expect.objectContaining({ place: "memory" })]);
  });

  it("is told what does not fit its tables, and the page takes nothing else", {
    timeout: 180_000,
  }, async () => {
    const add = async (row: object, table = "scores") => {
      const { result, failure } = await run({ do: "add", table, row });
      return failure?.message.trim().split("\n").at(-1) ?? result;
    };
    expect(await add({ item: 5 })).toContain("item is not text");
    expect(await add({ score: "x" })).toContain("score is not a number");
    expect(await add({ times: 1.5 })).toContain("times is a column of integers, and 1.5 is none");
    expect(await add({ times: 2 ** 70 })).toContain("times is not a whole number of 64 bits");
    expect(await add({ thumb: "x" })).toContain("thumb is not bytes");
    expect(await add({ item: "x".repeat(400_000) })).toContain("at most 1000000: keep less in it");
    expect(await add({ other: 5 })).toContain(
      "scores has no column 'other'; it has item, score, times, thumb",
    );
    expect(await add({}, "others")).toContain("task.json declares no table 'others'; it has scores");
    expect(await add({ item: "added", times: true })).toBe("[{'times': 1}]");
    const before = (await agent.sql("shop/a", "SELECT count(*) FROM scores")).rows[0]?.[0];
    expect((await run({ do: "forge" })).result).toBe(before);
  });

  it("is told of by its traceback where it fails, and goes on", async () => {
    const { failed, failure } = await run({ do: "raise" });
    expect([failed, failure?.kind]).toEqual([true, "exception"]);
    expect(failure?.message).toContain("line 18, in run");
    expect(failure?.message).toContain("ValueError: no such item");
    expect((await run({})).failed).toBe(false);
    expect(service.reports).toContainEqual(expect.objectContaining({ task: "shop/a", failed: true }));
  });

  it("is interrupted where it runs away, and ended where it does not stop", {
    timeout: 180_000,
  }, async () => {
    const spun = await run({ do: "spin" });
    expect(spun.failure?.kind).toBe("time");
    expect(spun.failure?.message).toContain("KeyboardInterrupt");
    expect((await run({})).result).toBeGreaterThan(2); // the same VM
    const held = await run({ do: "hold on" });
    expect(held.failure?.kind).toBe("time");
    expect(held.failure?.message).toContain("did not stop when it was interrupted");
    expect((await run({})).failure?.message).toContain("is started again in");
    expect((await run({}, "shop/b")).result).toBe(7);
  });

  it("gives back its models when it goes", async () => {
    agent.close();
    await Promise.resolve();
    await Promise.resolve();
    expect(closed).toEqual(["https://tapml.invalid/shop/a/model/"]);
    expect([...agent.tasks.keys()]).toEqual([]);
  });
});

describe("a VM that cannot be started", () => {
  const configuration = {
    main: "main",
    triggers: [],
    schedule: null,
    needs: { network: [], models: [], seconds: 1 },
    emits: [],
    keeps: null,
  };

  it("is tried again later and later, and each failure is told", async () => {
    let [now, starts] = [0, 0];
    const told: string[] = [];
    const around = {
      ...{ ran: () => {}, failed: ({ kind }: { kind: string }) => void told.push(kind), now: () => now },
      start: async (): Promise<Vm> => {
        starts++;
        throw new Error("no memory");
      },
    };
    const task = new HeldTask("a/b", "1", configuration, around);
    for (const seconds of [0, 0.5, 1, 1.5, 3, 3.1, 7]) {
      now = 1000 * seconds;
      await task.start({});
    }
    expect(starts).toBe(4); // at 0, 1, 3 and 7 s
    expect(told).toEqual(Array(7).fill("start"));
  });

  it("takes a hundred events, and refuses more", async () => {
    const around = {
      ran: () => {},
      failed: () => {},
      now: () => 0,
      start: (): Promise<Vm> => new Promise(() => {}),
    };
    const task = new HeldTask("a/b", "1", configuration, around);
    for (let i = 0; i < 100; i++) void task.start({});
    expect((await task.start({})).failure?.kind).toBe("queue");
  });
});
