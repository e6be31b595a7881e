import type { ComponentChildren } from "preact";
import { ScrollBox } from "./ScrollBox";

/** Facts in rows, the first cell of each its heading; one too wide scrolls by itself, by keys too. */
export function Table(props: {
  heads?: readonly string[];
  rows: readonly { key: string | number; cells: readonly [ComponentChildren, ...ComponentChildren[]] }[];
  caption?: ComponentChildren;
}) {
  return (
    <ScrollBox class="scroll-x" label="Table">
      <table class="elements">
        {props.caption && <caption>{props.caption}</caption>}
        {props.heads && (
          <thead>
            <tr>
              {props.heads.map((head) => (
                <th key={head} scope="col">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
        )}
        <tbody>
          {props.rows.map(({ key, cells: [head, ...cells] }) => (
            <tr key={key}>
              <th scope="row">{head}</th>
              {cells.map((cell, at) => (
                <td key={at}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollBox>
  );
}
