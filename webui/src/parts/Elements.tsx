import { excess } from "../../../runner_js/kit/tolerance";
import type { JsonNumber, ToleranceDocument } from "../api/generated/results";
import { error, exact } from "../model/format";
import { shareText } from "../model/headline";
import { Table } from "./Table";

interface ShownElement {
  /** Absent where it is known which output is meant. */
  output?: number;
  index: number[];
  expected: JsonNumber;
  got: JsonNumber;
  bound?: JsonNumber | null;
}

/** Single elements: expected beside got, and how far that is beyond what is allowed. */
export function Elements(props: {
  rows: readonly { name: string; element: ShownElement | null }[];
  /** By output; an element's own bound comes first. */
  tolerances?: readonly ToleranceDocument[];
}) {
  const rows = props.rows.flatMap(({ name, element }) =>
    element === null
      ? []
      : [{ name, element, over: excess(element, props.tolerances?.[element.output ?? 0]) }],
  );
  if (rows.length === 0) return null;
  // Elements are columns, for there are two of them at most: both fit beside the graph and on a phone.
  const facts: [string, (row: (typeof rows)[number]) => string][] = [
    [
      "index",
      ({ element: { output, index } }) =>
        `${(output ?? 0) > 0 ? `output ${output} ` : ""}[${index.join(", ")}]`,
    ],
    ["expected", ({ element }) => exact(element.expected)],
    ["got", ({ element }) => exact(element.got)],
    ["of its bound", ({ over }) => (over.times === null ? "–" : shareText(over.times))],
    ["difference", ({ over }) => error(over.difference)],
    ["bound", ({ over }) => error(over.allowed)],
  ];
  return (
    <Table
      heads={["element", ...rows.map(({ name }) => name)]}
      rows={facts.map(([name, text]) => ({ key: name, cells: [name, ...rows.map(text)] }))}
    />
  );
}
