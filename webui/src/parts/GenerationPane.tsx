/** A text that the model writes on a device, each step beside the reference. */

import { useState } from "preact/hooks";
import { asError } from "../api/client";
import type { SuiteGeneration } from "../api/types";
import { bytes, count, error, grouped, seconds } from "../model/format";
import {
  asked,
  DEFAULTS,
  endOf,
  parting,
  type Settings,
  shown,
  stages,
  tokenState,
  tokenWord,
  type Writing,
  type WrittenToken,
} from "../model/generation";
import { changedSince, editedText } from "../model/older";
import { OLDER } from "../model/verdicts";
import type { Choice } from "../state/device-choice";
import { useQuery } from "../state/router";
import type { LiveWriting } from "../state/use-writing";
import { Fact, Glyph, Problem, VerdictBadge } from "./Basics";
import { GapChart } from "./GapChart";
import { type GenerationPaneProps, StepCard } from "./StepCard";
import { Table } from "./Table";

export function GenerationPane(props: GenerationPaneProps) {
  const { generation, live, on } = props;
  const { writing } = live;
  const [position, setPosition] = useQuery("position");
  const changed = changedSince(writing?.prompt?.kernels ?? {}, props.state.kernels);
  const token = writing?.tokens.find((one) => String(one.position) === position) ?? null;
  if (generation.encoder)
    return (
      <p class="hint">
        This model attends to what its encoder leaves, which is another suite: write with{" "}
        <code>tapml generate --encoder</code>.
      </p>
    );
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
    <section class="stack scroll generation" tabIndex={0} aria-label="Generation">
      <PromptForm generation={generation} live={live} on={on} begin={() => setPosition(null)} />
      {writing?.error && (
        <Problem title={writing.tokens.length > 0 ? "The text ended early." : ""} error={writing.error} />
      )}
      {writing && (
        <>
          <Status writing={writing} />
          {changed.size > 0 && (
            <p class="row older-note" role="status">
              <VerdictBadge state="stale" word={OLDER} />
              <span>{editedText(changed)}: write again.</span>
            </p>
          )}
          <div class={`stack${changed.size > 0 ? " stale" : ""}`}>
            <WrittenText
              writing={writing}
              chosen={token}
              choose={(one) => setPosition(one === token ? null : String(one.position))}
            />
            {token && <StepCard {...props} token={token} writing={writing} />}
            <Summary writing={writing} />
          </div>
        </>
      )}
      {!writing && (
        <p class="hint">
          The model goes on with the prompt on the device, and each step's logits are held against those that
          the reference computes of the same tokens. Choose a token for its step and the step's operators.
        </p>
      )}
    </section>
  );
}

const FIELDS = [
  { key: "temperature", name: "Temperature", note: "empty: greedy" },
  { key: "topK", name: "Top-k", note: "all" },
  { key: "topP", name: "Top-p", note: "1" },
  { key: "seed", name: "Seed", note: "0" },
] as const;

function PromptForm(props: {
  generation: SuiteGeneration;
  live: LiveWriting;
  on: Choice | undefined;
  begin: () => void;
}) {
  const { generation, live, on } = props;
  const [problem, setProblem] = useState<string | null>(null);
  const [prompt, setPrompt] = useQuery("prompt", "typed");
  const [tokens, setTokens] = useQuery("tokens", "typed");
  const fields = {
    temperature: useQuery("temperature", "typed"),
    topK: useQuery("top-k", "typed"),
    topP: useQuery("top-p", "typed"),
    seed: useQuery("seed", "typed"),
  };
  const settings: Settings = {
    prompt: prompt ?? generation.prompt ?? "",
    tokens: tokens ?? String(DEFAULTS.tokens),
    temperature: fields.temperature[0] ?? "",
    topK: fields.topK[0] ?? "",
    topP: fields.topP[0] ?? "",
    seed: fields.seed[0] ?? "",
  };
  const running = live.writing?.state === "running";
  const start = (event: Event) => {
    event.preventDefault();
    if (on === undefined) return;
    try {
      const body = asked(settings, on.value, generation);
      setProblem(null);
      props.begin();
      void live.write(body);
    } catch (thrown) {
      setProblem(asError(thrown).message);
    }
  };
  return (
    <form class="stack tight" onSubmit={start}>
      <label class="stack tight">
        <span>
          Prompt {!generation.tokenizer && <span class="muted">as tokens: this model has no tokenizer</span>}
        </span>
        <textarea
          rows={2}
          value={settings.prompt}
          onInput={(event) => setPrompt(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !running) start(event);
          }}
        />
      </label>
      <div class="row">
        <label class="row">
          Tokens at most
          <input
            class="short"
            inputMode="numeric"
            value={settings.tokens}
            onInput={(event) => setTokens(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary" disabled={running || on === undefined}>
          {on === undefined ? "Write" : `Write on ${on.name}`}
        </button>
        <button type="button" disabled={!running} onClick={live.abort}>
          Abort
        </button>
        {on === undefined && <span class="muted">choose a device above</span>}
      </div>
      <details open={FIELDS.some(({ key }) => fields[key][0] !== null)}>
        <summary>How tokens are chosen</summary>
        <div class="row">
          {FIELDS.map(({ key, name, note }) => (
            <label key={key} class="row">
              {name}
              <input
                class="short"
                inputMode="decimal"
                placeholder={note}
                value={settings[key]}
                onInput={(event) => fields[key][1](event.currentTarget.value || null)}
              />
            </label>
          ))}
        </div>
      </details>
      {problem && <Problem title="" error={problem} dismiss={() => setProblem(null)} />}
    </form>
  );
}

function Status(props: { writing: Writing }) {
  const { tokens, messages, device, prompt, state } = props.writing;
  const compared = tokens.filter((token) => token.compared !== null).length;
  const end = endOf(props.writing);
  const text =
    prompt === null
      ? state === "running"
        ? device === null
          ? "Waiting for the device…"
          : `Building the model for ${device}…`
        : ""
      : `${count(tokens.length, "token")} behind a prompt of ${prompt.ids.length}, on ${device}` +
        (end === null ? "" : ` (${end})`) +
        (compared < tokens.length ? `; ${compared} compared with the reference` : "");
  return (
    <div class="stack tight">
      <p role="status">
        {state === "running" && <span class="spinner inline" aria-hidden="true" />} {text}
      </p>
      {messages.map((message, at) => (
        <p key={at} class="muted">
          ⚠ {message}
        </p>
      ))}
    </div>
  );
}

function WrittenText(props: {
  writing: Writing;
  chosen: WrittenToken | null;
  choose: (token: WrittenToken) => void;
}) {
  const { tokens, state } = props.writing;
  const parts = parting(tokens);
  if (tokens.length === 0) return null;
  return (
    <fieldset class="written">
      <legend class="muted">Tokens, each with its step</legend>
      {tokens.map((token) => {
        const verdict = tokenState(token);
        const word = `${tokenWord(token, state === "running")}${token === parts ? "; the likeliest token parts here" : ""}`;
        return (
          <button
            type="button"
            key={token.position}
            class={`token is-${verdict}${token === parts ? " parts" : ""}`}
            aria-pressed={token === props.chosen}
            title={`Position ${token.position}: ${word}`}
            onClick={() => props.choose(token)}
          >
            {verdict === "fail" && <Glyph state="fail" />}
            {shown(token)}
          </button>
        );
      })}
    </fieldset>
  );
}

function Summary(props: { writing: Writing }) {
  const { tokens, prompt, state } = props.writing;
  const last = tokens.at(-1);
  if (last === undefined || prompt === null) return null;
  const parts = parting(tokens);
  const compared = tokens.filter((token) => token.compared !== null).length;
  const limit = prompt.tolerance?.max_abs_error ?? null;
  return (
    <>
      <p>
        {parts?.compared
          ? `At position ${parts.position} the likeliest token parts: token ${parts.compared.greedy} here, ${parts.compared.reference_greedy}${parts.compared.reference_text === null ? "" : ` (${JSON.stringify(parts.compared.reference_text)})`} of the reference, ${error(parts.compared.margin)} apart in its logits.`
          : compared > 0
            ? `The likeliest token is the reference's in ${compared === 1 ? "the one step" : `all ${compared} steps`} that ${compared === 1 ? "is" : "are"} compared.`
            : "No step is compared with the reference yet."}
      </p>
      <GapChart tokens={tokens} limit={limit} />
      <Table
        heads={["stage", "tokens", "time", "GPU time", "tokens a second"]}
        rows={stages(tokens).map((stage) => ({
          key: stage.name,
          cells: [
            stage.name,
            grouped(stage.tokens),
            seconds(stage.seconds),
            stage.gpuSeconds === null ? "no timestamps" : seconds(stage.gpuSeconds),
            (stage.tokens / stage.seconds).toPrecision(3),
          ],
        }))}
      />
      <dl class="row numbers">
        <Fact
          name="KV cache"
          value={bytes(last.states)}
          note={`of ${bytes(prompt.capacity * prompt.bytes_per_token)}: ${bytes(prompt.bytes_per_token)} a token, room for ${grouped(prompt.capacity)}`}
        />
      </dl>
      {state !== "running" && (
        <p class="muted">
          Logits are read back and each dispatch is timed, so calls take longer here than in a page; what a
          page takes <code>tapml generate</code> tells.
        </p>
      )}
    </>
  );
}
