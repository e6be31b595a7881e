import { beforeEach, describe, expect, it } from "vitest";
import type { AgentOptions, TaskFailure } from "./api";
import { compareVersions, readAnswer, readConfiguration } from "./documents";
import { createAgent } from "./index";
import { browserOf, profileHeader } from "./profile";
import { SERVICE, Service } from "./published.testing";
import { memoryStore } from "./store";

const CONFIGURATION =
  '{"format": "tapml.task-configuration/1", "emits": ["seen"], "triggers": [["enter", "*", "**", "exit"]]}';
const FILES = { "task.json": CONFIGURATION, "main.pyc": "bytecode" };
const utf8 = (text: string) => new TextEncoder().encode(text);

let service: Service;
let options: AgentOptions;
beforeEach(async () => {
  service = await Service.make();
  options = { service: SERVICE, key: service.key, app: "1.4", store: memoryStore(), fetch: service.fetch };
});

/** What a device holds after it was offered this, and what failed. */
async function pulled(more: Partial<AgentOptions> = {}): Promise<[string[], TaskFailure[]]> {
  const agent = await createAgent({ ...options, ...more });
  const failed: TaskFailure[] = [];
  agent.on("failed", (failure) => failed.push(failure));
  await agent.pull();
  const held = [...agent.tasks.values()].map(({ name, version }) => `${name} ${version}`);
  agent.close();
  return [held, failed];
}

describe("a version that the page's key signed is installed, and kept", () => {
  it("is held, told in the profile, and not downloaded a second time", async () => {
    service.answer = { install: [await service.publish("shop/a", "1.2", FILES)], remove: [] };
    const agent = await createAgent(options);
    const installed: string[] = [];
    agent.on("installed", ({ name }) => installed.push(name));
    agent.on("pulled", (tasks) => installed.push(`all: ${[...tasks.keys()].join()}`));
    await agent.pull();
    expect(installed).toEqual(["shop/a", "all: shop/a"]);
    expect(agent.tasks.get("shop/a")?.configuration.triggers).toEqual([["enter", "*", "**", "exit"]]);
    expect(JSON.parse(agent.profile()).holds).toEqual({ "shop/a": "1.2" });
    agent.close();

    service.asked.length = 0;
    const later = await createAgent(options);
    expect(later.device).toBe(agent.device);
    expect([...later.tasks.keys()]).toEqual(["shop/a"]);
    expect(service.asked).toEqual([]);
    service.answer = { install: [], remove: ["shop/a"] };
    await later.pull();
    expect([...later.tasks.keys()]).toEqual([]);
    later.close();
  });

  it("acts on the answer to an ordinary request, and tells strangers nothing", async () => {
    const offer = await service.publish("shop/a", "1.2", FILES);
    const headers: (string | null)[] = [];
    const answering = (async (url: string, init: RequestInit = {}) => {
      headers.push(new Headers(init.headers).get("Tapml-Profile"));
      if (!String(url).endsWith("/page")) return await service.fetch(url, init);
      return new Response("page", {
        headers: { "Tapml-Answer": JSON.stringify({ install: [offer], remove: [] }) },
      });
    }) as typeof fetch;
    const agent = await createAgent({ ...options, fetch: answering });
    const installed = new Promise((resolve) => agent.on("installed", resolve));
    expect(await (await agent.fetch("https://field.example/page")).text()).toBe("page");
    await installed;
    expect(JSON.parse(String(headers[0])).device).toBe(agent.device);
    await agent.fetch("https://other.example/page");
    expect(headers.at(-1)).toBe(null);
    agent.close();
  });
});

it("a service that is asked too often is asked again when it says", async () => {
  service.answer = { install: [await service.publish("shop/a", "1.2", FILES)], remove: [] };
  const busy = new Set<string>();
  const get = (async (url: string, init: RequestInit) => {
    if (busy.has(url)) return await service.fetch(url, init);
    busy.add(url);
    return new Response("{}", { status: 429, headers: { "Retry-After": "0" } });
  }) as typeof fetch;
  expect(await pulled({ fetch: get })).toEqual([["shop/a 1.2"], []]);
  expect(busy.size).toBe(5); // answer, manifest, signature and two files
});

describe("what is not the page's key's is never run", () => {
  it("another key's", async () => {
    const other = await Service.make();
    service.answer = { install: [await service.publish("shop/a", "1.2", FILES)], remove: [] };
    const [held, failed] = await pulled({ key: other.key });
    expect(held).toEqual([]);
    expect(failed[0]?.message).toContain("is not signed by the page's key");
  });

  it("a signature of something else, a file that was changed, a manifest under another name or digest", async () => {
    const offer = await service.publish("shop/a", "1.2", FILES);
    const manifest = service.files.get(`manifests/${offer.manifest}.json`) as Uint8Array<ArrayBuffer>;
    const good = new Map(service.files);
    const wrong: [string, () => void | Promise<void>, object?][] = [
      [
        "is not signed",
        async () =>
          void service.files.set(
            `manifests/${offer.manifest}.sig`,
            await service.sign("tapml.exclusive/1", manifest),
          ),
      ],
      [
        "is not the file",
        () =>
          void service.files.set(
            [...good.keys()].filter((name) => name.startsWith("blobs/"))[1] as string,
            utf8("bytecodE"),
          ),
      ],
      [
        "more than the 8 bytes",
        () =>
          void service.files.set(
            [...good.keys()].filter((name) => name.startsWith("blobs/"))[1] as string,
            utf8("bytecode and more"),
          ),
      ],
      ["is that of shop/a 1.2", () => {}, { ...offer, task: "shop/b" }],
      ["is that of shop/a 1.2", () => {}, { ...offer, version: "1.3" }],
      ["is not the file", () => void service.files.set(`manifests/${offer.manifest}.json`, utf8("{}"))],
      ["answers 404", () => void service.files.delete(`manifests/${offer.manifest}.sig`)],
    ];
    for (const [sentence, change, offered = offer] of wrong) {
      service.reports.length = 0;
      service.files.clear();
      for (const [name, data] of good) service.files.set(name, data);
      await change();
      service.answer = { install: [offered], remove: [] };
      const [held, failed] = await pulled({ store: memoryStore() });
      expect(held).toEqual([]);
      expect(failed.map(({ message }) => message).join()).toContain(sentence);
      const { task, version } = offered as typeof offer;
      const what = sentence === "answers 404" ? "missing" : "untrusted";
      const report = { task, version, failed: true, ms: null, failure: { kind: "pull", what } };
      await expect.poll(() => service.reports).toEqual([report]);
    }
  });

  it("one that no device can install is reported once by a page, where the page's user wants reports", async () => {
    service.answer = {
      install: [await service.publish("shop/a", "1.2", { "main.pyc": "bytecode" })],
      remove: [],
    };
    const agent = await createAgent(options);
    const failed: string[] = [];
    agent.on("failed", ({ message }) => failed.push(message));
    await agent.pull();
    await agent.pull();
    expect(failed.map((message) => message.includes("has no task.json"))).toEqual([true, true]);
    const failure = { kind: "pull", what: "task.json" };
    await expect
      .poll(() => service.reports)
      .toEqual([{ task: "shop/a", version: "1.2", failed: true, ms: null, failure }]);
    agent.close();

    await pulled({ reports: () => false });
    expect(service.reports).toHaveLength(1);

    service.answer = {
      install: [await service.publish("shop/a", "1.3", { ...FILES, "task.json": "{}" })],
      remove: [],
    };
    await pulled({ store: memoryStore() });
    await expect.poll(() => service.reports[1]).toMatchObject({ version: "1.3", failed: true, failure });
  });

  it("a service that is away for a moment is no failure of the version", async () => {
    service.answer = { install: [await service.publish("shop/a", "1.2", FILES)], remove: [] };
    for (const away of [
      async () => new Response(null, { status: 500 }),
      async () => {
        throw new TypeError("the network is gone");
      },
    ]) {
      const answering = (async (url: string, init: RequestInit = {}) =>
        String(url).includes("/manifests/") ? await away() : await service.fetch(url, init)) as typeof fetch;
      const [held, failed] = await pulled({ fetch: answering, store: memoryStore() });
      expect([held, failed.map(({ kind }) => kind)]).toEqual([[], ["pull"]]);
    }
    expect(service.reports).toEqual([]);
  });

  it("a kept file that was changed is downloaded again; an older version than the page wants is refused", async () => {
    const offer = await service.publish("shop/a", "1.2", FILES);
    service.answer = { install: [offer], remove: [] };
    const store = memoryStore();
    for (const name of service.files.keys()) await store.set(name, utf8("evil"));
    expect((await pulled({ store }))[0]).toEqual(["shop/a 1.2"]);
    const [held, failed] = await pulled({ store: memoryStore(), least: { "shop/a": "1.10" } });
    expect(held).toEqual([]);
    expect(failed[0]?.message).toContain("shop/a 1.2 is older than 1.10");
    expect(service.reports).toEqual([]);
  });
});

it("exclusive files come by the grant alone, and are not kept", async () => {
  const grants: (string | null)[] = [];
  const offer = await service.publish("shop/a", "1.2", FILES);
  const manifest = JSON.parse(
    new TextDecoder().decode(service.files.get(`manifests/${offer.manifest}.json`)),
  );
  const data = utf8(JSON.stringify({ ...manifest, exclusive: "0".repeat(64) }));
  const { sha256 } = await import("./trust");
  const digest = await sha256(data);
  service.files.set(`manifests/${digest}.json`, data);
  service.files.set(`manifests/${digest}.sig`, await service.sign("tapml.task/1", data));
  const own = [
    {
      path: "task.json",
      sha256: await sha256(utf8(CONFIGURATION.replace("seen", "own"))),
      bytes: CONFIGURATION.length - 1,
    },
  ];
  const document = utf8(
    JSON.stringify({ format: "tapml.exclusive/1", manifest: digest, subject: "ann", files: own }),
  );
  const at = `exclusive/${digest}`;
  service.files.set(`${at}/document.json`, document);
  service.files.set(`${at}/document.sig`, await service.sign("tapml.exclusive/1", document));
  service.files.set(`${at}/files/task.json`, utf8(CONFIGURATION.replace("seen", "own")));
  service.answer = { install: [{ ...offer, manifest: digest }], remove: [] };
  const watched = (async (url: string, init: RequestInit) => {
    grants.push(String(url).includes("exclusive") ? new Headers(init.headers).get("Tapml-Grant") : null);
    return await service.fetch(url, init);
  }) as typeof fetch;
  const agent = await createAgent({ ...options, fetch: watched, grant: async () => "ann's" });
  await agent.pull();
  expect(agent.tasks.get("shop/a")?.configuration.emits).toEqual(["own"]);
  expect(grants.filter((grant) => grant !== null)).toEqual(["ann's", "ann's", "ann's"]);
  agent.close();
  const nobody = await createAgent({ ...options, store: memoryStore() });
  await nobody.pull();
  expect(nobody.tasks.get("shop/a")?.configuration.emits).toEqual(["seen"]);
  nobody.close();
});

describe("documents are read strictly", () => {
  it.each([
    ['{"format": "tapml.task-configuration/1", "emit": []}', "it.emit is not one of"],
    ['{"format": "tapml.task-configuration/2"}', "format is not tapml.task-configuration/1"],
    ['{"format": "tapml.task-configuration/1", "main": "a.b"}', "main is not the name of a Python module"],
    [
      '{"format": "tapml.task-configuration/1", "triggers": [[]]}',
      "triggers[0] is not a list of events' ids",
    ],
    [
      '{"format": "tapml.task-configuration/1", "schedule": {"every_seconds": 0}}',
      "a number from 1 to 86400",
    ],
    [
      '{"format": "tapml.task-configuration/1", "needs": {"network": ["https://a.example/x"]}}',
      "is not an origin",
    ],
    ...[
      ["{}", "keeps.tables is not an object"],
      ['{"tables": {}}', "keeps.tables is not an object of 1 to 16 names"],
      ['{"tables": {"a": {}}}', "keeps.tables.a is not an object of 1 to 64 names"],
      ['{"tables": {"a": {"b": "json"}}}', "keeps.tables.a.b is not one of integer, real, text, blob"],
      ['{"tables": {"A": {"b": "text"}}}', "keeps.tables: A is not a name for SQL"],
      ['{"tables": {"sqlite_a": {"b": "text"}}}', "is not a name for SQL"],
      ['{"tables": {"a": {"rowid": "text"}}}', "is not a name for SQL"],
      ['{"tables": {"__proto__": {"b": "text"}}}', "is not a name for SQL"],
      ['{"tables": {"a": {"b": "text"}}, "bytes": 1}', "keeps.bytes is not a number from"],
      ['{"tables": {"a": {"b": "text"}}, "buffer": 1.5}', "keeps.buffer is not a whole number"],
    ].map(([keeps, sentence]) => [
      `{"format": "tapml.task-configuration/1", "keeps": ${keeps}}`,
      sentence as string,
    ]),
    ["[]", "it is not an object"],
    ["{", "it is not JSON"],
  ])("%s", (text, sentence) => {
    expect(() => readConfiguration(utf8(text))).toThrow(sentence);
  });

  it("an answer with a task that is no name, or a digest that is none", () => {
    expect(() => readAnswer(utf8('{"install": [], "remove": ["../x"]}'))).toThrow(
      "remove[0] is not SCENARIO/TASK",
    );
    const offer = { task: "a/b", version: "1", manifest: "../x" };
    expect(() => readAnswer(utf8(JSON.stringify({ install: [offer], remove: [] })))).toThrow(
      "a SHA-256 digest",
    );
  });

  it("versions have their order", () => {
    expect(compareVersions("1.10", "1.9")).toBeGreaterThan(0);
    expect(compareVersions("1.4", "1.4.0")).toBe(0);
  });
});

it("the profile is one line of ASCII, and not too long", () => {
  const fast = JSON.parse(profileHeader("d".repeat(16), { ...options, speed: 310.5 }, {})) as {
    speed: number;
  };
  expect(fast.speed).toBe(310.5);
  const told = profileHeader("d".repeat(16), { ...options, attributes: { habit: "nächtlich" } }, {});
  expect(told).toMatch(/^[ -~]+$/);
  expect(JSON.parse(told).attributes.habit).toBe("nächtlich");
  expect(() => profileHeader("d", { ...options, attributes: { long: "x".repeat(5000) } }, {})).toThrow(
    "4096",
  );
  expect(browserOf("Mozilla/5.0 (X11) AppleWebKit/537.36 HeadlessChrome/151.0 Safari/537.36")).toEqual({
    name: "chromium",
    version: 151,
  });
  expect(browserOf("Mozilla/5.0 (X11; rv:150.0) Gecko/20100101 Firefox/150.0")).toEqual({
    name: "firefox",
    version: 150,
  });
});
