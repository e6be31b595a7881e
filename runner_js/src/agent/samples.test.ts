import { beforeEach, describe, expect, it } from "vitest";
import type { AgentOptions, Sampled, TaskModel, TaskRun, VmWorker } from "./api";
import { readAnswer } from "./documents";
import { createAgent } from "./index";
import { SERVICE, Service } from "./published.testing";
import { placeOf } from "./reports";
import { Sampler } from "./samples";
import { memoryStore } from "./store";

const CONFIGURATION = JSON.stringify({
  format: "tapml.task-configuration/1",
  needs: { models: ["model/"], seconds: 60 },
});
const FILES = { "task.json": CONFIGURATION, "main.pyc": "bytecode", "model/model.json": "{}" };
const CAPTURED = new Blob(["a captured call"]);

/** As the runtime's: a capture is of the next call that is made, and not of one that is refused. */
function madeModel(refuses: () => boolean = () => false) {
  let waiting: ((captured: { file: Blob; operators: unknown[] }) => void) | null = null;
  const asked: { sample: number; aborted: boolean }[] = [];
  const model: TaskModel = {
    outputs: [],
    run: async () => {
      if (refuses()) throw new Error("input x is missing");
      waiting?.({ file: CAPTURED, operators: [1, 2] });
      waiting = null;
      return {};
    },
    capture: ({ sample, signal }) =>
      new Promise((resolve, reject) => {
        const one = { sample, aborted: false };
        asked.push(one);
        waiting = resolve;
        signal.addEventListener("abort", () => {
          one.aborted = true;
          waiting = null;
          reject(signal.reason);
        });
      }),
    dispose: () => {},
  };
  return { model, asked };
}

/** A worker of which each run calls the model once. */
function madeWorker(): VmWorker {
  let tell = (_: unknown): void => {};
  let runs = 0;
  return {
    onMessage: (listener) => {
      tell = listener;
    },
    onError: () => {},
    terminate: () => {},
    postMessage: (given) => {
      const message = given as { kind: string; id: number };
      if (message.kind === "start") queueMicrotask(() => tell({ kind: "ready", milliseconds: 1 }));
      if (message.kind === "run") {
        runs = message.id;
        tell({ kind: "model", id: 1, model: "model/", inputs: {} });
      }
      if (message.kind === "reply")
        tell({ kind: "ended", id: runs, milliseconds: 44, outcome: '{"result": null}' });
    },
  };
}

let service: Service;
beforeEach(async () => {
  service = await Service.make();
  const offer = await service.publish("shop/a", "1.2", FILES);
  service.answer = { install: [{ ...offer, sampling: { runs: 1, operators: 0.5 } }], remove: [] };
});

/** What came of one run: that itself, and what the page was told of samples. */
async function ran(
  more: Partial<AgentOptions>,
  isOver = () => service.reports.length === 1,
): Promise<[TaskRun, Sampled[]]> {
  const agent = await createAgent({
    ...{ service: SERVICE, key: service.key, app: "1", store: memoryStore(), fetch: service.fetch },
    ...{ base: "https://page.example/", spawn: madeWorker },
    ...more,
  });
  const sampled: Sampled[] = [];
  agent.on("sampled", (one) => sampled.push(one));
  await agent.pull();
  const run = await (agent.tasks.get("shop/a") as NonNullable<ReturnType<typeof agent.tasks.get>>).start({});
  await expect.poll(isOver).toBe(true);
  agent.close();
  return [run, sampled];
}

describe("a share of what a task's models compute leaves, where plan and page allow it", () => {
  it("is sent before the run is reported, without a time, and the page is told", async () => {
    const { model, asked } = madeModel();
    const [run, sampled] = await ran({ load: async () => model, consent: () => true });
    expect(run.failure).toBe(null);
    expect(asked).toEqual([{ sample: 0.5, aborted: false }]);
    expect(service.samples).toEqual([["task=shop%2Fa&version=1.2", CAPTURED.size]]);
    const order = service.asked.filter((path) => /^(samples|reports)/.test(path));
    expect(order).toEqual(["samples?task=shop%2Fa&version=1.2", "reports"]);
    expect(service.reports).toEqual([{ task: "shop/a", version: "1.2", failed: false, ms: null }]);
    expect(sampled).toMatchObject([
      { task: "shop/a", version: "1.2", bytes: CAPTURED.size, operators: 2, counted: true },
    ]);
  });

  it.each([
    ["without the page's consent", { consent: () => false, reports: () => true }],
    ["where the page says nothing", {}],
  ])("nothing is captured %s", async (_, more) => {
    const { model, asked } = madeModel();
    const [, sampled] = await ran({ load: async () => model, ...more });
    expect([asked, service.samples, sampled]).toEqual([[], [], []]);
    expect(service.reports).toMatchObject([{ failed: false, ms: 44 }]);
  });

  it("nothing at all is told where the page's user wants no reports, and no sample", async () => {
    const asked: string[] = [];
    const reports = ({ task, version }: { task: string; version: string }) => {
      asked.push(`${task} ${version}`);
      return false;
    };
    const [run] = await ran({ load: async () => madeModel().model, reports }, () => asked.length > 0);
    expect(run.failed).toBe(false);
    expect(asked).toEqual(["shop/a 1.2"]);
    expect(service.asked.filter((path) => /^(samples|reports)/.test(path))).toEqual([]);
  });

  it("nothing but the profile leaves without consent, where the page says nothing more of reports", async () => {
    let asked = 0;
    const consent = () => ++asked < 0;
    await ran({ load: async () => madeModel().model, consent }, () => asked === 2); // of a sample, of a report
    const profiles = service.asked.filter((path) => !/^(manifests|blobs)\//.test(path));
    expect(profiles).toEqual(["answer"]);
  });

  it("nothing leaves where consent was withdrawn meanwhile", async () => {
    const { model, asked } = madeModel();
    const says = [true, false];
    await ran({ load: async () => model, consent: () => says.shift() ?? false, reports: () => true });
    expect(asked).toHaveLength(1);
    expect(service.samples).toEqual([]);
  });

  it("a service that takes none is nothing to the task", async () => {
    const { model } = madeModel();
    const refusing = (async (url: string, init: RequestInit) =>
      String(url).includes("samples?")
        ? Response.json({}, { status: 500 })
        : await service.fetch(url, init)) as typeof fetch;
    const [run, sampled] = await ran({ load: async () => model, consent: () => true, fetch: refusing });
    expect([run.failed, sampled]).toEqual([false, []]);
  });

  it("of calls the share that the plan says is captured, and of a refused one nothing", async () => {
    const drawn = [0.1, 0.3, 0.2, 0.9];
    const files: Blob[] = [];
    let refuses = false;
    const { model, asked } = madeModel(() => refuses);
    const sampler = new Sampler({
      rates: { runs: 0.25, operators: 1 },
      consent: () => true,
      send: async (file) => files.push(file) > 0,
      sampled: () => {},
      random: () => drawn.shift() ?? 1,
    });
    const call = () => sampler.run(model, () => model.run({}));
    await call();
    await call();
    expect(await sampler.left()).toBe(true);
    expect(await sampler.left()).toBe(false);
    refuses = true;
    await expect(call()).rejects.toThrow("input x is missing");
    refuses = false;
    await call();
    await sampler.left();
    expect(asked).toEqual([
      { sample: 1, aborted: false },
      { sample: 1, aborted: true },
    ]);
    expect(files).toEqual([CAPTURED]);
  });

  it.each([{ runs: 2, operators: 1 }, { runs: 1 }, { runs: 1, operators: 1, all: true }, null])(
    "rates that are none are refused: %j",
    (sampling) => {
      const offer = { task: "shop/a", version: "1", manifest: "0".repeat(64), sampling };
      const answer = new TextEncoder().encode(JSON.stringify({ install: [offer], remove: [] }));
      expect(() => readAnswer(answer)).toThrow("install[0].sampling");
    },
  );
});

it("a browser of a simulation step has the name that it was given", async () => {
  const given = { service: SERVICE, key: service.key, app: "1", store: memoryStore(), fetch: service.fetch };
  const agent = await createAgent({ ...given, device: "simulated-0123456789" });
  expect(JSON.parse(agent.profile()).device).toBe("simulated-0123456789");
  agent.close();
  await expect(createAgent({ ...given, device: "short" })).rejects.toThrow('"short" is no name of a device');
});

describe("of a traceback type and place are told, and nothing that the exception says", () => {
  const HEAD = "Traceback (most recent call last):";
  const FRAMES =
    '  File "/task/main.py", line 7, in run\n    x = f(y)\n        ~^^^\n  File "/task/shop/prices.py", line 12, in f';
  const OTHER = '  File "/lib/python314.zip/json/decoder.py", line 356, in decode';
  it.each([
    [`${HEAD}\n${FRAMES}\nValueError: secret of a user`, "ValueError at shop/prices.py:12"],
    [
      `${HEAD}\n${FRAMES}\n${OTHER}\njson.decoder.JSONDecodeError: secret`,
      "json.decoder.JSONDecodeError at shop/prices.py:12",
    ],
    [`${HEAD}\n${FRAMES}\nKeyError\n`, "KeyError at shop/prices.py:12"],
    [
      `${HEAD}\n${FRAMES}\nKeyError: 1\n  File "/task/secret.py", line 1, in x\nSecret: 2`,
      "KeyError at shop/prices.py:12",
    ],
    [`${HEAD}\n${OTHER}\nKeyError: 1`, ""],
    [`${HEAD}\n${FRAMES}\n`, ""],
    [`${HEAD}\n${FRAMES}\nsecret of a user`, ""],
    ["it ran longer than 2 s", ""],
    ["", ""],
  ])("%j", (traceback, told) => expect(placeOf(traceback)).toBe(told));
});
