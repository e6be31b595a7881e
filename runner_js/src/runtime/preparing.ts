/**
 * What models prepare when they are loaded, a module of its own (tapml-preparing.js): launches that read nothing but
 * weights, of kernels that pack these before they multiply by them, say, run once, and what they write is kept. Few
 * devices run such kernels, so pages for others do not load it. What it shares with the runtime it has once more.
 */
import type { CompiledFunction, CompiledTensor, Dispatch } from "../compiled/generated/model";
import { dispatchesOf } from "../compiled/steps";
import { paddedBytes } from "../hal/sizes";
import { bytesOf } from "../program/dtypes";
import { Encoder } from "./encoder";
import { Flat, type Launches, type Region } from "./flat";
import type { Budget } from "./memory";
import type { ReadyKernel } from "./pipelines";
import { OUTPUT_USAGE, type Prepared, type Session, UNPREPARED } from "./session";
import { typeAt } from "./values";

/** Times the bytes of the weights that it is of: nobody has unpacked what was packed to be small. */
const MOST_KEPT = 1.8;

/** A dispatch's launches that run once, and those that are left for its calls. */
interface Halves {
  readonly once: Launches;
  readonly left: Launches;
}

/**
 * Runs them; weights must have come. Where the budget has no room for all that they write, or the GPU no memory, or it takes
 * them amiss, calls run all of their launches, as ever.
 */
export async function prepare(
  session: Session,
  kernels: readonly ReadyKernel[],
  budget: Budget,
): Promise<Prepared> {
  const { allocations, gpu, weights } = session;
  const buffers = { weights, arena: [], state: [], input: [], output: [] };
  const flat = new Flat({ device: gpu.device, allocations }, buffers);
  const left = new Map<Dispatch, Launches>();
  const made: GPUBuffer[] = [];
  const none = () => {
    for (const buffer of made) allocations.destroy(buffer);
    return UNPREPARED;
  };
  // Dispatches of one kernel with the same weights, in several functions or turns of a loop, share what is kept.
  const shared = new Map<string, Launches>();
  let bytes = 0;
  const most = budget.limit - held(budget);
  const make = (wanted: number) => {
    const buffer = allocations.make(wanted, OUTPUT_USAGE);
    made.push(buffer);
    bytes += buffer.size;
    if (bytes > most) throw new RangeError("there is no room for more");
    return buffer;
  };
  try {
    await allocations.made(() => {
      for (const fn of Object.values(session.model.functions)) {
        for (const dispatch of dispatchesOf(fn.code)) {
          const kernel = kernels[dispatch.kernel] as ReadyKernel;
          const given = dispatch.operands.map((operand) => weightOf(session, fn, operand));
          const key = JSON.stringify([
            dispatch.kernel,
            given.map((region) => region && [region.index, region.offset]),
          ]);
          let rest = shared.get(key);
          if (!rest) {
            const halves = halvesOf(kernel, given, make);
            if (!halves) continue;
            const sizes = Object.fromEntries(kernel.symbols.map(({ name, minimum }) => [name, minimum]));
            flat.add(kernel, sizes, given as Region[], given.length, "", halves.once);
            rest = halves.left;
            shared.set(key, rest);
          }
          left.set(dispatch, rest);
        }
      }
      flat.seal();
    });
    const encoder = new Encoder(gpu.device, allocations, true, null);
    encoder.replay(flat, 0, flat.length);
    encoder.submit();
    const errors = await Promise.all(encoder.errors);
    return errors.some((error) => error !== null) ? none() : { left, buffers: made, bytes };
  } catch {
    return none();
  } finally {
    flat.destroy();
  }
}

/** Bytes of the device's memory that its models have now, and what they cannot be without. */
function held({ residents, loaded }: Budget): number {
  const paged = [...residents.keys()].reduce((total, one) => total + one.paged, 0);
  return [...loaded].reduce((total, one) => total + one.kept, paged);
}

/**
 * Null for what is no weight, and for words of which each may be several integers: written in another order they are as
 * large again, and kernels of few rows read them as they lie. So each call writes them.
 */
function weightOf(session: Session, fn: CompiledFunction, operand: number): Region | null {
  const tensor = fn.tensors[operand] as CompiledTensor;
  const [kind, index, offset = 0] = tensor.at;
  if (kind !== "weights" || tensor.dtype === "uint32") return null;
  return { of: session.weights, index, offset, bytes: paddedBytes(bytesOf(typeAt(tensor, {}))) };
}

/** Null where none of its launches can run once. `given`: its operands that are weights; `make`: for so many bytes. */
function halvesOf(
  { variant, executables }: ReadyKernel,
  given: readonly (Region | null)[],
  make: (bytes: number) => GPUBuffer,
): Halves | null {
  const { launches, temporaries } = variant;
  const used = (launch: number) =>
    (launches[launch]?.operands ?? []).flatMap((operand, i) => {
      if (!("temporary" in operand)) return [];
      return [{ temporary: operand.temporary, access: executables[launch]?.storage[i]?.access }];
    });
  const written = (launch: number) =>
    used(launch).flatMap(({ temporary, access }) => (access === "read" ? [] : [temporary]));
  const numbers = launches.map((_, launch) => launch);
  let once = numbers.filter((launch) => {
    const { grid, uniforms, operands } = launches[launch] as (typeof launches)[number];
    return (
      // The same at each call.
      [...grid, ...uniforms.map(({ value }) => value)].every((value) => typeof value === "number") &&
      operands.every((operand) => {
        if ("argument" in operand) return given[operand.argument] != null;
        return "temporary" in operand && typeof temporaries[operand.temporary] === "number";
      })
    );
  });
  for (;;) {
    // What others write, too, is not what it was at the next call.
    const others = new Set(numbers.filter((launch) => !once.includes(launch)).flatMap(written));
    const pure = once.filter((launch) => used(launch).every(({ temporary }) => !others.has(temporary)));
    if (pure.length === once.length) break;
    once = pure;
  }
  const wanted = [...new Set(once.flatMap(written))].map((one) => [one, temporaries[one] as number] as const);
  const read = new Set(
    once.flatMap((launch) =>
      (launches[launch]?.operands ?? []).map((one) => ("argument" in one ? given[one.argument] : null)),
    ),
  );
  const sum = (all: Iterable<number>) => [...all].reduce((total, bytes) => total + bytes, 0);
  const most = MOST_KEPT * sum([...read].map((region) => region?.bytes ?? 0));
  if (!once.length || sum(wanted.map(([, bytes]) => bytes)) > most) return null;
  const kept = new Map(wanted.map(([one, bytes]) => [one, make(bytes)]));
  const half = (of: readonly number[]): Launches => ({ numbers: new Set(of), kept });
  return { once: half(once), left: half(numbers.filter((launch) => !once.includes(launch))) };
}
