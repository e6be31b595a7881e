/** A number, or the name of what JSON has no number for. */
export type JsonNumber = number | "NaN" | "Infinity" | "-Infinity";

export interface ToleranceNumbers {
  absolute: JsonNumber;
  relative: JsonNumber;
}

/** |got − expected|, what is allowed there, and how many times over it is; null where one is not known. */
export function excess(
  element: { expected: JsonNumber; got: JsonNumber; bound?: JsonNumber | null },
  tolerance: ToleranceNumbers | undefined,
): { difference: number | null; allowed: number | null; times: number | null } {
  const { expected, got, bound } = element;
  const compared = typeof expected === "number" && typeof got === "number";
  const difference = compared ? Math.abs(got - expected) : null;
  // By the tolerance's numbers only where the expected value is one.
  const allowed =
    typeof bound === "number" || bound === "Infinity"
      ? Number(bound)
      : tolerance && typeof expected === "number"
        ? Number(tolerance.absolute) + Number(tolerance.relative) * Math.abs(expected)
        : null;
  if (difference === null || allowed === null) return { difference, allowed, times: null };
  return { difference, allowed, times: allowed > 0 ? difference / allowed : Number.POSITIVE_INFINITY };
}
