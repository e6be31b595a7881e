import type { GraphNode } from "../api/types";
import { nodeNames, testState } from "../model/matrix";
import { GLYPH } from "../model/verdicts";
import type { Shared } from "./shared";

export interface NodePickerProps extends Shared {
  node: GraphNode;
  problems: readonly string[];
}

/** From one node of a kernel to its others, and from problem to problem. */
export function NodePicker(props: NodePickerProps) {
  const { suite, node, state, device, problems, select } = props;
  const siblings = suite.graph.nodes.filter(
    (other) => other.kind === "kernel" && other.kernel === node.kernel,
  );
  const names = nodeNames(suite);
  const kernels = new Set(siblings.map(({ id }) => id));
  // The first test of each.
  const tests = new Map(
    suite.tests
      .filter((test) => kernels.has(test.node))
      .reverse()
      .map((test) => [test.node, test]),
  );
  const glyph = (id: string): string => {
    const test = tests.get(id);
    return GLYPH[test ? testState(state, device ?? "", test) : "none"];
  };
  const at = problems.indexOf(node.id);
  const order = suite.graph.nodes.map((other) => other.id);
  const here = order.indexOf(node.id);
  const before = [...problems].reverse().find((id) => order.indexOf(id) < here);
  const after = problems.find((id) => order.indexOf(id) > here);
  if (siblings.length < 2 && problems.length === 0) return null;
  return (
    <div class="row node-picker">
      {siblings.length > 1 && (
        <select aria-label="Node" value={node.id} onChange={(event) => select(event.currentTarget.value)}>
          {siblings.map((other, position) => (
            <option key={other.id} value={other.id}>
              {glyph(other.id)} {other.id} · {position + 1} of {siblings.length} · {names.get(other.id)}
            </option>
          ))}
        </select>
      )}
      {problems.length > 0 && (
        <span class="problem-steps">
          <button type="button" disabled={before === undefined} onClick={() => select(before ?? null)}>
            <span aria-hidden="true">←</span>
            <span class="sr-only">Previous problem</span>
          </button>
          <span class="muted">
            {at >= 0 ? `problem ${at + 1} of ${problems.length}` : `${problems.length} problems`}
          </span>
          <button type="button" disabled={after === undefined} onClick={() => select(after ?? null)}>
            <span aria-hidden="true">→</span>
            <span class="sr-only">Next problem</span>
          </button>
        </span>
      )}
    </div>
  );
}
