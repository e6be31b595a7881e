/** Runs the test that is in this page, and shows what comes out. */
/** @import { Bytes, Outcome, Repro, TensorRef, View } from "./types" */
import { compare, errorMap } from "./compare.js";
import {
  ANSWER_SECONDS,
  chooseVariant,
  describeDevice,
  Failure,
  findAdapter,
  limitsOf,
  openDevice,
  within,
} from "./device.js";
import { runKernel } from "./kernel.js";
import { allowedBy, checkBytes, readRepro, readTensor, toleranceTensors } from "./test.js";
import { judge, lostItsDevice, numbersOf, statement } from "./verdict.js";
import { render } from "./view.js";

/** @param {Repro} repro @returns {Promise<{outcome: Outcome, got: Bytes[]}>} */
async function runTest(repro) {
  /** @type {Outcome} */
  const outcome = {
    verdict: "error",
    message: "",
    variant: null,
    outputs: [],
    error: null,
    seconds: {},
    maps: [],
    device: null,
  };
  /** @type {Bytes[]} */
  let got = [];
  /** @type {GPUDevice | null} */
  let device = null;
  try {
    if (!repro.kernel.variants.length) chooseVariant(repro.kernel, [], {});
    const adapter = await findAdapter();
    const features = [...adapter.features].sort();
    const { all: limits } = limitsOf(adapter);
    outcome.device = describeDevice(adapter.info, features, limits);
    const variant = chooseVariant(repro.kernel, features, limits);
    outcome.variant = variant.name;
    const tensors = new Map();
    const named = [...repro.inputs, ...repro.outputs, ...toleranceTensors(repro)];
    checkBytes(named);
    for (const tensor of named) {
      if (!tensors.has(tensor.digest)) tensors.set(tensor.digest, await readTensor(tensor));
    }
    /** @param {TensorRef} tensor @returns {Bytes} */
    const data = (tensor) => tensors.get(tensor.digest);
    /** @param {string} name */
    const code = (name) => repro.files.find((file) => file.name === name)?.text ?? "";

    device = await within(openDevice(adapter, variant), ANSWER_SECONDS, "the GPU process does not answer");
    const lost = device.lost.then(({ reason, message }) => {
      throw new Failure("device-lost", `device lost: ${message || "no reason was given"}`, {
        lost_reason: reason,
      });
    });
    lost.catch(() => {});
    const running = runKernel(device, variant, repro, code, data, outcome.seconds).catch(async (cause) => {
      // Where a device goes all its promises fail, and only then word of the loss comes: wait a second for it.
      if (!(cause instanceof Failure))
        await Promise.race([lost, new Promise((resolve) => setTimeout(resolve, 1000))]);
      throw cause;
    });
    got = await Promise.race([running, lost]);

    const compared = performance.now();
    const allowed = repro.outputs.map(({ tolerance }) => allowedBy(tolerance, data));
    outcome.outputs = repro.outputs.map((type, i) => compare(got[i], data(type), type, allowed[i]));
    outcome.seconds.compare = (performance.now() - compared) / 1000;
    Object.assign(outcome, judge(outcome.outputs));
    repro.outputs.forEach((type, i) => {
      if (outcome.outputs[i]?.mismatched)
        outcome.maps.push(errorMap(got[i], data(type), type, i, allowed[i]));
    });
  } catch (cause) {
    const failure = cause instanceof Failure ? cause : new Failure("internal", String(cause));
    outcome.error = failure.report;
    outcome.verdict = failure.report.kind === "unsupported" ? "unsupported" : "error";
    outcome.message = failure.message;
  }
  device?.destroy();
  return { outcome, got };
}

async function start() {
  const root = document.getElementById("page") ?? document.body;
  /** @type {View} */
  const view = { state: "waiting", text: "", outcome: null };
  /** For the console and for tests. @type {any} */
  const open = window;
  /** @type {Repro} */
  let repro;
  const show = () => {
    const here = view.outcome && numbersOf(view.outcome);
    document.body.dataset.state = view.state;
    document.body.dataset.verdict = here?.verdict ?? "";
    document.body.dataset.reproduced = here ? statement(repro.report, here).reproduced : "";
    open.tapmlRepro = { ...open.tapmlRepro, state: view.state, verdict: here?.verdict ?? null };
    render(root, repro, view, { run });
  };
  const run = async () => {
    Object.assign(view, { state: "running", text: "Compiling and running the kernel.", outcome: null });
    show();
    const { outcome, got } = await runTest(repro);
    Object.assign(view, { state: "done", outcome });
    open.tapmlRepro = { ...outcome, got };
    show();
  };
  try {
    repro = readRepro();
  } catch (cause) {
    root.textContent = `This file does not hold a whole test (${cause}): it was changed on its way, download it again.`;
    return;
  }
  // What is folded is printed too.
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
  if (!lostItsDevice(repro)) return run();
  view.text =
    "Where it was reported this kernel hung or lost the GPU device. It may freeze the display for a while: save your work first.";
  show();
}

// Tests load this without a page.
if (globalThis.document?.getElementById("repro")) void start();
