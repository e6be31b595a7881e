import { describe, expect, it } from "vitest";
import vectors from "../../../tests/vectors/expressions.json";
import { checkSizes, evaluate, extent, printed } from "./expressions";

interface Vector {
  expression: unknown;
  sizes: Record<string, number>;
  value?: number;
  error?: string;
  printed?: string;
  what?: string;
  least?: number;
  most?: number;
}

/** What `call` gives, or the words of its error. */
function said(call: () => unknown): unknown {
  try {
    return call();
  } catch (cause) {
    return (cause as Error).message;
  }
}

const shown = (vector: Vector) => [JSON.stringify(vector.expression).slice(0, 60), vector] as const;

describe("evaluate", () => {
  it.each((vectors.evaluate as Vector[]).map(shown))("gives the value or the error of %s", (_, vector) => {
    expect(said(() => evaluate(vector.expression, vector.sizes))).toStrictEqual(vector.value ?? vector.error);
    if (vector.printed) expect(printed(vector.expression as never)).toBe(vector.printed);
  });

  it("is exact near 2^53, where a quotient of doubles is not", () => {
    for (let i = 0; i < 3000; i++) {
      const a = Number.MAX_SAFE_INTEGER - ((i * 7919) % 104_729);
      const b = 1 + ((i * i * 31) % 1_000_003);
      const quotient = Number(BigInt(a) / BigInt(b));
      const rest = BigInt(a) % BigInt(b) === 0n ? 0 : 1;
      expect(evaluate(["floordiv", a, b], {})).toBe(quotient);
      expect(evaluate(["ceildiv", a, b], {})).toBe(quotient + rest);
      expect(evaluate(["floordiv", -a, b], {})).toBe(0 - quotient - rest);
    }
  });
});

describe("extent", () => {
  it.each((vectors.extent as Vector[]).map(shown))("gives the value or the error of %s", (_, vector) => {
    const { expression, sizes, what = "", least, most } = vector;
    expect(said(() => extent(expression, sizes, what, least, most))).toBe(vector.value ?? vector.error);
  });
});

describe("checkSizes", () => {
  it.each(vectors.sizes.map((vector) => [JSON.stringify(vector.sizes), vector] as const))(
    "takes or refuses %s",
    (_, { symbols, sizes, error }) => {
      const found = said(() => checkSizes(symbols, sizes as unknown as Record<string, number>));
      expect(found ?? null).toBe(error);
    },
  );
});
