import { count } from "../model/format";
import type { LaunchFacts } from "../model/launch";
import { Table } from "./Table";

/** How a variant is launched: one line, opened to bindings and limits. The WGSL below is what one comes for. */
export function LaunchSection(props: {
  facts: LaunchFacts;
  variants: readonly LaunchFacts[];
  /** The reader wants another variant. */
  pick: (variant: LaunchFacts) => void;
  bundle: unknown;
}) {
  const { facts, variants } = props;
  const bindings = facts.entryPoints.reduce((sum, entry) => sum + entry.bindings.length, 0);
  const shown = facts.launches.slice(0, 6);
  return (
    <section class="stack launch" aria-label="Launch">
      {variants.length > 1 && (
        <label>
          variant{" "}
          <select
            value={facts.variant}
            onChange={(event) => {
              const name = event.currentTarget.value;
              const picked = variants.find((one) => one.variant === name);
              if (picked) props.pick(picked);
            }}
          >
            {variants.map((one) => (
              <option key={one.variant} value={one.variant}>
                {one.variant}
              </option>
            ))}
          </select>{" "}
          <span class="muted">a device runs the first of {variants.length} that it can</span>
        </label>
      )}
      <ul>
        {shown.map((launch, at) => (
          <li key={at}>
            {facts.launches.length > 1 && <span class="muted">{at + 1}. </span>}
            <code>{launch.entryPoint}</code> {launch.workgroups} workgroups
            {launch.workgroupSize !== "" && ` of ${launch.workgroupSize}`}
          </li>
        ))}
        {facts.launches.length > shown.length && (
          <li class="muted">and {facts.launches.length - shown.length} more</li>
        )}
        {facts.features.length > 0 && <li>needs {facts.features.join(", ")}</li>}
      </ul>
      <details>
        <summary>
          {count(bindings, "binding")}, {count(facts.limits.length, "required limit")}
          {facts.temporaries > 0 && `, ${count(facts.temporaries, "scratch buffer")}`}
        </summary>
        {facts.entryPoints.map((entry) => (
          <Table
            key={entry.name}
            caption={<code>{entry.name}</code>}
            heads={["binding", "name", "access", "type", "holds"]}
            rows={entry.bindings.map(({ binding, name, access, type, holds }) => ({
              key: binding,
              cells: [binding, name, access, type, holds],
            }))}
          />
        ))}
        <Table
          caption="Required limits"
          rows={facts.limits.map(({ name, bound }) => ({ key: name, cells: [name, bound] }))}
        />
        <details>
          <summary>As JSON</summary>
          <pre class="json">{JSON.stringify(props.bundle, null, 2)}</pre>
        </details>
      </details>
    </section>
  );
}
