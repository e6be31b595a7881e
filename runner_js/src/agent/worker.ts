/** A VM: one Pyodide in a worker, with one task in it. tapml-vm.js is made of this file. */
import { MOST_ASKED, MOST_EMITTED, MOST_TEXT } from "./limits";
import { lockDown } from "./lockdown";
import type { FromVm, ModelTensor, Start, ToVm } from "./messages";
import { tableCalls } from "./storage/vm";

/** Of Pyodide, what is used here. */
interface Pyodide {
  FS: { mkdirTree(path: string): void; writeFile(path: string, data: Uint8Array): void };
  registerJsModule(name: string, module: object): void;
  pyimport(name: string): { prepared(main: string): Proxy; install(path: string): void };
  setInterruptBuffer(buffer: Uint8Array): void;
  makeMemorySnapshot(): Uint8Array;
}
interface Proxy {
  toJs(options?: object): [Runner | null, string | null];
}
type Runner = (event: string) => Promise<string>;
type Load = (options: object) => Promise<Pyodide>;

// Once tasks run these are nowhere else.
const send = globalThis.postMessage.bind(globalThis) as (message: FromVm, transfer?: Transferable[]) => void;
const now = performance.now.bind(performance);
const stringify = JSON.stringify;

const waiting = new Map<number, (reply: [string, unknown]) => void>();
let asked = 0;
let emitted = 0;
let runner: Runner | null = null;
let beginRun = (): void => {};

globalThis.addEventListener("message", (event) => {
  const message = (event as MessageEvent).data as ToVm;
  if (message.kind === "start") void start(message);
  else if (message.kind === "run") void run(message.id, message.event);
  else {
    waiting.get(message.id)?.([message.error ?? "", message.value]);
    waiting.delete(message.id);
  }
});

async function start(given: Start): Promise<void> {
  const began = now();
  try {
    const { python } = given;
    const { loadPyodide } = (await import(/* @vite-ignore */ `${python}pyodide.mjs`)) as {
      loadPyodide: Load;
    };
    const pyodide = await loadPyodide({
      indexURL: python.startsWith("file:") ? decodeURIComponent(new URL(python).pathname) : python,
      env: { HOME: "/", PYTHONHASHSEED: "0" },
      stdin: () => null,
      stdout: () => {},
      stderr: () => {},
      _makeSnapshot: given.makeSnapshot,
      ...(given.snapshot && { _loadSnapshot: given.snapshot }),
    });
    if (given.makeSnapshot) {
      const data = pyodide.makeMemorySnapshot().slice();
      send({ kind: "snapshot", data }, [data.buffer as ArrayBuffer]);
    }
    await installPackages(pyodide, given.packages);
    for (const [path, data] of given.files) {
      pyodide.FS.mkdirTree(`/task/${path}`.slice(0, `/task/${path}`.lastIndexOf("/")));
      pyodide.FS.writeFile(`/task/${path}`, data);
    }
    const { begin, ...kept } = tableCalls(given.tables, send, reply);
    beginRun = begin;
    pyodide.registerJsModule("_tapml_agent", {
      ...{ emit: emitter(given.emits), fetch: request, model },
      ...kept,
    });
    const { arrays, images } = await computed(given);
    pyodide.registerJsModule("_tapml_arrays", arrays);
    pyodide.registerJsModule("_tapml_images", images);
    if (given.interrupt) pyodide.setInterruptBuffer(new Uint8Array(given.interrupt));
    const vm = pyodide.pyimport("_tapml_vm");
    lockDown(globalThis);
    // From here on code of the task runs.
    const [found, error] = vm.prepared(given.main).toJs({ depth: 1 });
    if (found === null) send({ kind: "refused", message: String(error) });
    else {
      runner = found;
      send({ kind: "ready", milliseconds: now() - began });
    }
  } catch (cause) {
    send({
      kind: "refused",
      message: cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause),
    });
  }
}

/** Throws where one cannot be loaded. */
async function installPackages({ FS, pyimport }: Pyodide, addresses: string[]): Promise<void> {
  for (const [at, address] of addresses.entries()) {
    const path = `/package${at}.whl`; // each another: what Python knows of a file it knows by its name
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`the page's package ${address} answers ${answer.status}`);
    FS.writeFile(path, new Uint8Array(await answer.arrayBuffer()));
    pyimport("_tapml_vm").install(path);
  }
}

/** Functions of arrays and images: of large ones on the GPU, where the page has it and threads may share memory. */
async function computed({ gpu, interrupt }: Start): Promise<{ arrays: object; images: object }> {
  const [arrays, { images, OWN }] = [await import("./arrays/arrays"), await import("./images/images")];
  if (gpu === null || interrupt === null) return { arrays: { ...arrays }, images: images(OWN) };
  const { arraysOf, imagesOf, Remote } = await import("./remote");
  const remote = new Remote(gpu, new Uint8Array(interrupt), now);
  return { arrays: arraysOf({ ...arrays }, remote), images: images(imagesOf(OWN, remote)) };
}

async function run(id: number, event: string): Promise<void> {
  const began = now();
  let outcome: string;
  beginRun();
  emitted = 0;
  try {
    outcome = await (runner as Runner)(event);
  } catch (cause) {
    outcome = stringify({ error: String(cause), interrupted: String(cause).includes("KeyboardInterrupt") });
  }
  send({ kind: "ended", id, milliseconds: now() - began, outcome });
}

function emitter(emits: string[]): (name: string, value: string) => void {
  return (name, value) => {
    if (!emits.includes(name)) throw new Error(`task.json does not declare that it emits ${name}`);
    if (String(value).length > MOST_TEXT)
      throw new Error(`a value that is emitted has at most ${MOST_TEXT} characters of JSON`);
    if (++emitted > MOST_EMITTED) throw new Error(`a run emits at most ${MOST_EMITTED} values`);
    send({ kind: "emit", name: String(name), value: String(value) });
  };
}

function reply(ask: (id: number) => void): Promise<[string, unknown]> {
  if (waiting.size >= MOST_ASKED) return Promise.resolve([`${MOST_ASKED} requests of it wait already`, null]);
  const id = ++asked;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    ask(id);
  });
}

function request(url: string, method: string, body: string | null): Promise<unknown> {
  return reply((id) =>
    send({ kind: "fetch", id, url: String(url), method: String(method), body: body ?? null }),
  );
}

type Listed = [name: string, dtype: string, shape: number[], data: Uint8Array];

/** `told`: a Python list of (name, dtype, shape, bytes). */
function model(path: string, told: { toJs(options?: object): Listed[] }): Promise<unknown> {
  const inputs: Record<string, ModelTensor> = {};
  for (const [name, dtype, shape, data] of told.toJs())
    inputs[name] = { dtype, shape: Array.from(shape), data: new Uint8Array(data).buffer };
  return reply((id) => send({ kind: "model", id, model: String(path), inputs }));
}
