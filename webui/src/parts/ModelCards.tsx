import type { ModelList, ModelPort, ModelSummary } from "../api/types";
import { bytes, count } from "../model/format";
import type { Resource } from "../state/resource";
import { Doubts, Edited, Pending, Problem, VerdictBadge } from "./Basics";

const MOST_NAMES = 4;

/** The compiled models that pages may load from here; nothing where there are none. */
export function ModelCards(props: { of: Resource<ModelList> }) {
  const { data, error } = props.of;
  if (error) return <Pending what="the models" of={props.of} />;
  if (data === null || data.models.length === 0) return null;
  return (
    <section class="models" aria-labelledby="models-title">
      <h1 id="models-title">Models</h1>
      <ul class="stack suites">
        {data.models.map((model) => (
          <li key={model.id} class="stack card suite-card">
            {"problem" in model ? (
              <Problem title={`${model.id} cannot be loaded.`} error={model.problem} />
            ) : (
              <ModelCard model={model} />
            )}
          </li>
        ))}
      </ul>
      {data.left_out > 0 && (
        <p class="muted">{count(data.left_out, "model")} more are served, and not listed.</p>
      )}
    </section>
  );
}

function ModelCard(props: { model: ModelSummary }) {
  const { model } = props;
  return (
    <>
      <div class="row card-head">
        <h2>{heading(model)}</h2>
        {model.edited.length > 0 && (
          <Edited
            title="The WGSL of these kernels, or how they are launched, differs from what was generated."
            names={named(model.edited)}
          />
        )}
      </div>
      <Doubts what={heading(model)} doubts={model.doubts} />
      <p class="model">
        {model.title} <span class="muted">{model.source}</span>
      </p>
      <p class="row facts">
        <span>{count(model.kernels, "kernel")}</span>
        <span>{bytes(model.weights)} of weights</span>
        <span>{bytes(model.bytes)} on disk</span>
        {model.tokenizer && <span>with its tokenizer</span>}
        {model.symbols.map(({ name, minimum, maximum }) => (
          <span key={name}>
            {name}: {minimum} to {maximum}
          </span>
        ))}
      </p>
      {Object.entries(model.functions).map(([name, ports]) => (
        <p key={name} class="row facts">
          <span>
            {Object.keys(model.functions).length > 1 && `${name}: `}
            {ports.inputs.map(port).join(", ")} → {ports.outputs.map(port).join(", ")}
          </span>
        </p>
      ))}
      {Object.entries(model.memory).map(([name, { planned, naive, lower_bound }]) => (
        <p key={name} class="row facts">
          <span>
            {bytes(planned)} of scratch memory{Object.keys(model.memory).length > 1 && ` for ${name}`} (
            {bytes(naive)} if nothing shared, at least {bytes(lower_bound)})
          </span>
        </p>
      ))}
      <Validation model={model} />
      {model.incomplete && (
        <p class="muted">Pages load it; on a machine without WebGPU it does not run: {model.incomplete}</p>
      )}
      <pre class="command">
        <code>
          {`import { load } from "${location.origin}/runtime/tapml-runtime.js";\n`}
          {`const model = await load("${location.origin}${address(model)}");`}
        </code>
      </pre>
    </>
  );
}

/** What its kernels passed on. */
function Validation(props: { model: ModelSummary }) {
  const { kernels, validation } = props.model;
  if (validation.length === 0) return <p class="muted latest">Validated on no device.</p>;
  return (
    <ul class="stack tight latest" aria-label="Validated on">
      {validation.map(({ device, passed, failing, unsupported }) => (
        <li key={device}>
          <span class="latest-device">{device}</span>
          <VerdictBadge
            state={failing.length > 0 ? "fail" : passed === kernels ? "pass" : "none"}
            word={`${passed} of ${count(kernels, "kernel")} pass`}
          />
          {failing.length > 0 && <span class="muted">{named(failing)}</span>}
          {unsupported.length > 0 && (
            <span class="muted">unsupported, for the device lacks what they need: {named(unsupported)}</span>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Two folders may hold models of one name. */
function heading({ id, name }: ModelSummary): string {
  return id === `${name}.tapml` ? name : id;
}

function address({ id, single }: ModelSummary): string {
  return `/models/${encodeURIComponent(id)}${single ? "" : "/"}`;
}

function port({ name, dtype, shape }: ModelPort): string {
  return `${name} ${dtype}[${shape.map((extent) => (Array.isArray(extent) ? "…" : extent)).join(", ")}]`;
}

function named(names: readonly string[]): string {
  const rest = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : "";
  return `${names.slice(0, MOST_NAMES).join(", ")}${rest}`;
}
