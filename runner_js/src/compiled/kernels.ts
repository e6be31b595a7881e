/** Kernels of a compiled model: that each variant is whole, and what it asks for at the sizes of a dispatch. */
import { type Expression, ExpressionError } from "../program/expressions";
import { storageBindings } from "../program/launches";
import { fits, misusedTexture } from "../program/textures";
import { type Algebra, type Scope, shown, type Value } from "./algebra";
import { bound, checkStored, padded } from "./bytes";
import type {
  Argument,
  CompiledEntryPoint,
  CompiledKernel,
  CompiledVariant,
  Launch,
} from "./generated/model";

const MOST_ELEMENTS = 2 ** 32;
export const RANGES: Record<string, readonly [number, number]> = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  uint32: [0, 2 ** 32 - 1],
};

/** What one launch binds: which operand of a dispatch (its arguments, then its temporaries), and whether written. */
type Access = readonly (readonly [number, boolean])[];

/** At the sizes of a dispatch: extents of each argument, and of each temporary the bytes that any variant takes. */
interface Needs {
  shapes: Value[][];
  temporaries: Value[][];
}

/** A kernel whose parts fit together. Throws an ExpressionError naming the kernel. */
export class KernelProof {
  readonly temporaries: number;
  /** Of each launch of each variant. */
  readonly accesses: Access[] = [];
  /** Output -> the input in whose bytes it is written. */
  readonly overwritten = new Map<number, number>();
  /** Operands that some launch writes. */
  readonly written: ReadonlySet<number>;
  readonly #needs = new Map<string, Needs>();

  constructor(
    readonly kernel: CompiledKernel,
    wgsl: number,
    private readonly algebra: Algebra,
  ) {
    this.temporaries = Math.max(...kernel.variants.map(({ temporaries }) => temporaries.length));
    const where = `kernel ${kernel.kernel}`;
    once(kernel.symbols, (name) => `${where}: the symbol ${name} stands twice`);
    for (const [number, argument] of kernel.arguments.entries()) {
      const place = `${where}: argument ${number}`;
      within(place, () => checkStored(argument.dtype, argument.encoding));
      if (argument.role === "input" && kernel.arguments[number - 1]?.role === "output")
        throw new ExpressionError(`${place} is an input behind outputs`);
      const before = argument.overwrites ?? null;
      if (before !== null) this.#checkOverwrites(`${place} overwrites argument ${before}`, number, before);
    }
    for (const variant of kernel.variants)
      this.#checkVariant(`${where}: variant ${variant.name}`, variant, wgsl);
    this.written = new Set(this.accesses.flatMap(writtenOf));
  }

  /** Throws an ExpressionError where, at these sizes of its symbols, a number may be none that can be. */
  needs(sizes: Scope): Needs {
    const key = JSON.stringify([...sizes.values()].map(({ terms }) => [...terms]));
    const found = this.#needs.get(key) ?? this.#at(sizes);
    this.#needs.set(key, found);
    return found;
  }

  #checkOverwrites(where: string, number: number, before: number): void {
    const argument = this.kernel.arguments[number] as Argument;
    const given = this.kernel.arguments[before];
    if (argument.role !== "output" || given?.role !== "input")
      throw new ExpressionError(`${where}, and only an output overwrites an input`);
    const type = ({ dtype, shape, encoding }: Argument) => JSON.stringify([dtype, shape, encoding ?? null]);
    if (type(given) !== type(argument)) throw new ExpressionError(`${where}, which has another type`);
    if ([...this.overwritten.values()].includes(before))
      throw new ExpressionError(`${where}, as another does`);
    this.overwritten.set(number, before);
  }

  #checkVariant(where: string, variant: CompiledVariant, wgsl: number): void {
    const entryPoints = new Map<string, CompiledEntryPoint>();
    for (const entryPoint of variant.entry_points) {
      const { name, bindings } = entryPoint;
      if (entryPoints.has(name)) throw new ExpressionError(`${where}: the entry point ${name} stands twice`);
      entryPoints.set(name, entryPoint);
      if (entryPoint.wgsl >= wgsl)
        throw new ExpressionError(`${where}: there is no WGSL text ${entryPoint.wgsl}`);
      if (new Set(bindings.map(({ binding }) => binding)).size !== bindings.length)
        throw new ExpressionError(`${where}: a binding of ${name} stands twice`);
    }
    const written = new Set<number>();
    for (const [number, launch] of variant.launches.entries()) {
      const called = entryPoints.get(launch.entry_point);
      if (!called) throw new ExpressionError(`${where}: launch ${number} is of no entry point`);
      const access = this.#access(`${where}: launch ${number}`, launch, called, variant);
      for (const operand of writtenOf(access)) written.add(operand);
      this.accesses.push(access);
    }
    const misused = misusedTexture(variant);
    if (misused !== null) throw new ExpressionError(`${where} ${misused}`);
    for (const [number, { role }] of this.kernel.arguments.entries()) {
      if (role === "output" && !written.has(number))
        throw new ExpressionError(`${where}: no launch writes argument ${number}, an output`);
    }
  }

  #access(where: string, launch: Launch, called: CompiledEntryPoint, variant: CompiledVariant): Access {
    const storage = storageBindings(called);
    const { operands } = launch;
    if (storage.length !== operands.length)
      throw new ExpressionError(`${where}: ${operands.length} operands for ${storage.length} bindings`);
    if (called.bindings.length - storage.length !== (launch.uniforms.length ? 1 : 0))
      throw new ExpressionError(`${where}: its uniforms do not fit the bindings`);
    const written = new Map<number, string>();
    return storage.flatMap((binding, i): [number, boolean][] => {
      const { access } = binding;
      const operand = operands[i] as Launch["operands"][number];
      const one = "texture" in operand ? operand.texture : -1;
      if (!fits(binding, operand, variant) || (written.get(one) ?? access) !== access)
        throw new ExpressionError(`${where}: operand ${i} does not fit its binding`);
      // Nothing but these launches sees a texture.
      if (one >= 0) written.set(one, access);
      if ("texture" in operand) return [];
      const isArgument = "argument" in operand;
      const number = isArgument ? operand.argument : operand.temporary;
      if (number >= (isArgument ? this.kernel.arguments : variant.temporaries).length)
        throw new ExpressionError(`${where}: there is no ${isArgument ? "argument" : "temporary"} ${number}`);
      if (isArgument && [...this.overwritten.values()].includes(number))
        throw new ExpressionError(`${where}: it binds argument ${number}, which an output overwrites`);
      return [[isArgument ? number : this.kernel.arguments.length + number, access === "read_write"]];
    });
  }

  #at(sizes: Scope): Needs {
    const value = (expression: Expression) => this.algebra.value(expression, sizes);
    const shapes = this.kernel.arguments.map(({ shape }) => shape.map(value));
    const temporaries = Array.from({ length: this.temporaries }, (): Value[] => []);
    for (const variant of this.kernel.variants) {
      for (const [number, count] of variant.temporaries.entries()) {
        if (value(count).low < 0)
          throw new ExpressionError(`temporary ${number} may take ${shown(count)} bytes, less than none`);
        temporaries[number]?.push(value(bound(padded(count))));
      }
      for (const launch of variant.launches) this.#checkLaunch(launch, value);
    }
    return { shapes, temporaries };
  }

  #checkLaunch({ grid, uniforms }: Launch, value: (expression: Expression) => Value): void {
    for (const extent of grid) {
      const found = value(extent);
      if (this.algebra.least(found) < 0 || this.algebra.greatest(found) > MOST_ELEMENTS)
        throw new ExpressionError(`the grid may be ${shown(extent)}, from ${found.low} to ${found.high}`);
    }
    for (const uniform of uniforms) {
      if (typeof uniform.value === "number" && uniform.dtype === "float32") continue;
      if (typeof uniform.value === "number" && !Number.isInteger(uniform.value))
        throw new ExpressionError(`the uniform ${uniform.name} is no ${uniform.dtype}`);
      const found = value(uniform.value);
      const [low, high] = RANGES[uniform.dtype] ?? [found.low, found.high];
      if (this.algebra.least(found) < low || this.algebra.greatest(found) > high)
        throw new ExpressionError(`the uniform ${uniform.name} may be from ${found.low} to ${found.high}`);
    }
  }
}

/** Throws the sentence for the first name that stands twice. */
export function once(found: readonly { name: string }[], sentence: (name: string) => string): void {
  const names = new Set<string>();
  for (const { name } of found) {
    if (names.has(name)) throw new ExpressionError(sentence(name));
    names.add(name);
  }
}

/** What `work` gives; `where` begins the ExpressionErrors that it throws. */
export function within<T>(where: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw cause instanceof ExpressionError ? new ExpressionError(`${where}: ${cause.message}`) : cause;
  }
}

function writtenOf(access: Access): number[] {
  return access.flatMap(([operand, written]) => (written ? [operand] : []));
}
