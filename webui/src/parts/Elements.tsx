import type { JsonNumber } from "../api/generated/results";
import { exact, number } from "../model/format";

export interface ShownElement {
  /** Absent where it is known which output is meant. */
  output?: number;
  index: number[];
  expected: JsonNumber;
  got: JsonNumber;
  bound?: JsonNumber | null;
}

/** Single elements: expected beside got. */
export function Elements(props: { rows: readonly { name: string; element: ShownElement | null }[] }) {
  const rows = props.rows.filter(
    (row): row is { name: string; element: ShownElement } => row.element !== null,
  );
  if (rows.length === 0) return null;
  const bounded = rows.some(({ element }) => element.bound !== undefined && element.bound !== null);
  return (
    <div class="scroll-x">
      <table class="elements">
        <thead>
          <tr>
            <th scope="col">element</th>
            <th scope="col">index</th>
            <th scope="col">expected</th>
            <th scope="col">got</th>
            {bounded && <th scope="col">may differ by</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, element }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>
                {(element.output ?? 0) > 0 ? `output ${element.output} ` : ""}[{element.index.join(", ")}]
              </td>
              <td>{exact(element.expected)}</td>
              <td>{exact(element.got)}</td>
              {bounded && <td>{number(element.bound)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
