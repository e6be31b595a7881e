/** Runs the test that is in this page, and shows what comes out. */
import { type Allowed, compare, judge } from "../src/compare/compare";
import { type ErrorMap, errorMap } from "../src/compare/error_map";
import { loadAllowed } from "../src/compare/tolerances";
import { DeviceFailure, toErrorReport } from "../src/hal/errors";
import { acquireGpu } from "../src/hal/gpu";
import { browserPlatform } from "../src/platform/platform";
import { bestFitting } from "../src/program/requirements";
import type { TensorRef } from "../src/protocol/messages";
import { overwritten, runKernel } from "./kernel";
import { openPage } from "./page";
import { readRepro, readTensors } from "./test";
import type { Bytes, Device, Outcome, Repro } from "./types";
import { withoutRun } from "./verdict";

/** What the kernel gave, for the console and for tests. */
let got: Bytes[] = [];

async function runTest(repro: Repro): Promise<Outcome> {
  const seconds: Outcome["seconds"] = {};
  let device: Device | null = null;
  let name: string | null = null;
  let close = () => {};
  got = [];
  try {
    const platform = browserPlatform();
    const gpu = await acquireGpu(platform.gpu, platform);
    if ("unavailable" in gpu) throw new DeviceFailure({ kind: "unsupported", message: gpu.unavailable });
    close = () => {
      if (!gpu.lost) gpu.device.destroy();
    };
    device = { name: platform.name, user_agent: platform.userAgent, ...gpu.capabilities };
    const { variant, why } = bestFitting(repro.kernel.variants, gpu.capabilities);
    if (!variant) throw new DeviceFailure({ kind: "unsupported", message: why });
    name = variant.name;
    const tensors = await readTensors(repro);
    const data = ({ digest }: TensorRef) => tensors.get(digest) as Bytes;
    got = await runKernel(gpu, variant, repro, data, seconds);

    const compared = performance.now();
    const maps: ErrorMap[] = [];
    const allowing = repro.outputs.map(({ tolerance }) =>
      loadAllowed(tolerance, async (ref) => data(ref).buffer),
    );
    const all = await Promise.all(allowing);
    const outputs = repro.outputs.map((type, i) => {
      const [found, expected, allowed] = [got[i] as Bytes, data(type), all[i] as Allowed];
      const input = overwritten(repro, i);
      const comparison = compare(found, expected, type, allowed, { before: input ? data(input) : undefined });
      if (comparison.mismatched) maps.push(errorMap(found, expected, type, i, allowed));
      return comparison;
    });
    seconds.compare = (performance.now() - compared) / 1000;
    return { ...judge(outputs), variant: name, outputs, error: null, seconds, maps, device };
  } catch (cause) {
    return { ...withoutRun(toErrorReport(cause), device), variant: name, seconds };
  } finally {
    close();
  }
}

const root = document.getElementById("page") ?? document.body;
try {
  const repro = readRepro();
  openPage(
    root,
    repro,
    () => runTest(repro),
    ({ state, outcome }) => {
      Object.assign(window, { tapmlRepro: { verdict: null, ...outcome, got, state } });
    },
  );
} catch (cause) {
  root.textContent = `This file does not hold a whole test (${cause}): it was changed on its way, download it again.`;
}
