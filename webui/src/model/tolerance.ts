import type { JsonNumber, ToleranceDocument } from "../api/generated/results";

/** |got − expected|, what is allowed there, and how many times over it is; null where one is not known. */
export function excess(
  element: { expected: JsonNumber; got: JsonNumber; bound?: JsonNumber | null },
  tolerance: Pick<ToleranceDocument, "absolute" | "relative"> | undefined,
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
