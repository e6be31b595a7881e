/** Grid, workgroup sizes and uniforms of a variant in a form: what it changes are drafts, tried and saved as any text. */

import { useEffect, useState } from "preact/hooks";
import type { DeviceDocument } from "../api/generated/results";
import type { KernelBundle, KernelDetail } from "../api/types";
import { type Field, type LaunchGroup, launchFields, overLimits, sizeConflict } from "../model/launch-edit";
import type { Drafts } from "../state/drafts";

export function LaunchForm(props: {
  detail: KernelDetail;
  variant: string;
  drafts: Drafts;
  /** What sizes are held against. */
  devices: readonly DeviceDocument[];
  /** Unfolded from the start. */
  open: boolean;
}) {
  const { detail, drafts } = props;
  const shown = (file: { name: string; text: string; digest: string; path: string }) =>
    drafts.of(file)?.text ?? file.text;
  const document = shown(detail.document);
  const texts = Object.fromEntries(detail.files.map((file) => [file.name, shown(file)]));
  const found = read(document, props.variant, texts, props.devices);
  const change = (field: Field, value: string) => {
    const made = field.change(value);
    drafts.type(detail.document, made.document);
    const file = detail.files.find(({ name }) => name === made.file?.name);
    if (file !== undefined && made.file !== undefined) drafts.type(file, made.file.text);
  };
  return (
    <details class="launch-form" open={props.open}>
      <summary>
        Launch{" "}
        <span class="muted">
          {"error" in found ? "" : found.groups.map(({ fields }) => summary(fields)).join("; ")}
        </span>
      </summary>
      {"error" in found ? (
        <p class="message is-error">The document cannot be read as it is typed: {found.error}</p>
      ) : (
        // biome-ignore lint/a11y/useSemanticElements: its parts are fieldsets, each with a legend; all of them have only a name
        <div class="stack tight" role="group" aria-label="Launch">
          {found.groups.map(({ name, fields }) => (
            <fieldset key={name} class="row">
              <legend>{name}</legend>
              {fields.map((field) => (
                <Input key={field.key} group={name} field={field} change={(value) => change(field, value)} />
              ))}
            </fieldset>
          ))}
        </div>
      )}
      {!("error" in found) &&
        found.warnings.map((warning) => (
          <p key={warning} class="message" role="alert">
            <span aria-hidden="true">⚠ </span>
            {warning}.
          </p>
        ))}
    </details>
  );
}

function Input(props: { group: string; field: Field; change: (value: string) => void }) {
  const { field } = props;
  /** What is typed, where it is not (yet) what the document says. */
  const [typed, setTyped] = useState<{ text: string; wrong: string } | null>(null);
  useEffect(() => setTyped(null), [field.text]);
  const type = (text: string) => {
    try {
      props.change(text);
      setTyped({ text, wrong: "" });
    } catch (error) {
      setTyped({ text, wrong: error instanceof Error ? error.message : String(error) });
    }
  };
  const wrong = typed?.wrong ?? "";
  return (
    <label class="launch-field">
      {field.label}{" "}
      <input
        type="text"
        value={typed?.text ?? field.text}
        size={Math.max(4, Math.min(24, (typed?.text ?? field.text).length))}
        spellcheck={false}
        aria-label={`${props.group}: ${field.label}`}
        aria-invalid={wrong !== ""}
        onInput={(event) => type(event.currentTarget.value)}
      />
      {wrong !== "" && <span class="tinted is-error">{wrong}</span>}
    </label>
  );
}

/** "17 × 1 × 1, n 17" */
function summary(fields: readonly Field[]): string {
  const axes = fields.filter(({ label }) => label.length === 1).map(({ text }) => text);
  const others = fields.filter(({ label }) => label.length > 1).map(({ label, text }) => `${label} ${text}`);
  return [axes.join(" × "), ...others].join(", ");
}

type Read = { groups: LaunchGroup[]; warnings: string[] } | { error: string };

function read(
  document: string,
  variant: string,
  files: Record<string, string>,
  devices: readonly DeviceDocument[],
): Read {
  try {
    const groups = launchFields(document, variant, files);
    const own = (JSON.parse(document) as KernelBundle).variants.find(({ name }) => name === variant);
    if (own === undefined) return { groups, warnings: [] };
    return { groups, warnings: [sizeConflict(own, files), ...overLimits(own, devices)].filter(Boolean) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}
