/** A test's outputs as a device gives them, beside what was expected. */

import { api } from "../api/client";
import type { DeviceDocument, RefDocument, TestResult } from "../api/generated/results";
import type { TensorStatistics, TestDetail } from "../api/types";
import { type Compared, compared } from "../model/elements";
import { sameDevice } from "../model/same-device";
import { readTensors, type Tensor, tensorOf, textOf } from "../model/tensor";
import type { Workgroups } from "../model/workgroups";

const POLL_EVERY = 200;

/** Texts in the place of those on disk; undefined: what is there. */
type Files = Record<string, string> | undefined;

/** Throws what went wrong, as a sentence. */
export async function fetchCompared(
  suite: string,
  device: DeviceDocument,
  result: TestResult,
  detail: TestDetail,
  files: Files,
): Promise<Compared[]> {
  const got = readTensors(await fetched("outputs", suite, device, result.id, files));
  const wanted = detail.tensors.filter(({ role }) => role === "output");
  return Promise.all(
    wanted.map(async (ref, at): Promise<Compared> => {
      const own = got.get(String(at));
      const expected = tensorOf(await api.blob(ref.digest), ref);
      const tolerance = result.tolerances[at] ?? detail.tolerances[at];
      if (own === undefined || expected === null || tolerance === undefined)
        throw new Error(`Output ${at} of ${result.id} is ${ref.dtype}, which this page cannot show.`);
      const bound = "bound" in tolerance ? await floats(tolerance.bound) : null;
      const ties =
        "ties" in tolerance && tolerance.ties ? new Int32Array(await api.blob(tolerance.ties.digest)) : null;
      return compared(own, expected, { ...tolerance, bound, ties });
    }),
  );
}

/** By the number of the output: whose work its elements are, of those of which it is known. */
export async function fetchWorkgroups(
  suite: string,
  device: DeviceDocument,
  result: TestResult,
  files: Files,
): Promise<Map<number, Workgroups>> {
  const file = await fetched("workgroups", suite, device, result.id, files);
  const { grids }: { grids: Record<string, number[]> } = JSON.parse(textOf(file));
  return new Map(
    [...readTensors(file)].map(([output, { bytes }]) => [
      Number(output),
      { grid: grids[output] ?? [], numbers: new Uint32Array(bytes.buffer) },
    ]),
  );
}

/** Of a test, as a picture or numbers. Throws what cannot be shown. */
export async function fetchTensor(ref: TensorStatistics): Promise<Tensor> {
  const tensor = tensorOf(await api.blob(ref.digest), ref);
  if (tensor === null)
    throw new Error(`${ref.name || ref.value} is ${ref.dtype}, which this page cannot show.`);
  return tensor;
}

async function fetched(
  what: "outputs" | "workgroups",
  suite: string,
  device: DeviceDocument,
  test: string,
  files: Files,
): Promise<ArrayBuffer> {
  const running = sameDevice(device, await api.devices());
  if (running === null)
    throw new Error(`${device.name} is not connected, and tapml cannot start it: open it, and try again.`);
  const { job } = await api.startOutputs(what, suite, test, running, files);
  await ended(job);
  return api.outputs(job);
}

async function floats(ref: RefDocument | null | undefined): Promise<Float32Array | null> {
  return ref ? new Float32Array(await api.blob(ref.digest)) : null;
}

async function ended(job: string): Promise<void> {
  for (;;) {
    const { state, error } = await api.job(job, 0);
    if (state === "done") return;
    if (state !== "running") throw new Error(error ?? "The run was cancelled.");
    await new Promise((resolve) => setTimeout(resolve, POLL_EVERY));
  }
}
