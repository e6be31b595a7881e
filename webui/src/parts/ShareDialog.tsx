/** One test for others: a link, a file, the text of a bug report. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Share, TestRef } from "../api/types";
import { date } from "../model/format";
import { useAttempt, useResource } from "../state/resource";
import { Problem } from "./Basics";
import { CopyButton } from "./CopyButton";

const LIVES = [
  { days: 1, name: "1 day" },
  { days: 7, name: "7 days" },
  { days: 90, name: "90 days" },
  { days: null, name: "until revoked" },
] as const;

const FILES = [
  { form: "html", name: "HTML file", note: "runs in any browser, needs no network: attach it to a bug" },
  { form: "wgsl", name: "WGSL folder", note: "kernel, tensors as .npy and the issue text, zipped" },
  { form: "python", name: "Python script", note: "against tapml's library, with its data, zipped" },
  { form: "safetensors", name: "safetensors", note: "the tensors, all the rest in their metadata" },
] as const;

export interface ShareDialogProps {
  suite: string;
  test: TestRef;
  /** Whose result goes along; by name. */
  device: string;
  close: () => void;
}

export function ShareDialog(props: ShareDialogProps) {
  const { suite, test, device } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      class="share"
      aria-labelledby="share-title"
      onClose={props.close}
      // The pane behind listens for Escape too.
      onKeyDown={(event) => event.key === "Escape" && event.stopPropagation()}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <div class="share-body">
        <header class="detail-title">
          <h2 id="share-title">
            Share {test.kernel} <span class="muted">{test.id}</span>
          </h2>
          <button type="button" class="close" aria-label="Close" onClick={() => dialog.current?.close()}>
            ✕
          </button>
        </header>
        <p class="muted">With the result of {device}. Nothing but this test is shared.</p>
        <LinkSection {...props} />
        <section>
          <h3>File</h3>
          <ul class="stack">
            {FILES.map(({ form, name, note }) => (
              <li key={form}>
                <a href={api.exportPath(suite, test.id, form, device)} download>
                  {name}
                </a>{" "}
                <span class="muted">{note}</span>
              </li>
            ))}
          </ul>
        </section>
        <IssueSection {...props} />
      </div>
    </dialog>
  );
}

function LinkSection({ suite, test, device }: ShareDialogProps) {
  const known = useResource(`${suite} ${test.id}`, () => api.shares(suite));
  const [days, setDays] = useState<number | null>(90);
  const [made, setMade] = useState<{ url: string; share: Share } | null>(null);
  const { problem, dismiss, busy, attempt } = useAttempt();
  const create = () =>
    attempt(async () => {
      const { path, share } = await api.createShare(suite, test.id, device, days);
      setMade({ url: location.origin + path, share });
      known.reload();
    });
  const revoke = (name: string) =>
    attempt(async () => {
      await api.revokeShare(suite, name);
      if (made?.share.name === name) setMade(null);
      known.reload();
    });
  const links = known.data?.shares.filter((share) => share.test === test.id) ?? [];

  return (
    <section>
      <h3>Link</h3>
      {problem && <Problem title="" error={problem} dismiss={dismiss} />}
      {made ? (
        <>
          <div class="row">
            <input
              class="share-url"
              readOnly
              aria-label="Link"
              value={made.url}
              onFocus={(event) => event.currentTarget.select()}
            />
            <CopyButton text={async () => made.url} name="Copy" />
            <a href={made.url} target="_blank" rel="noopener">
              Open ↗
            </a>
          </div>
          <p class="muted">
            Copy it now: it is not kept anywhere. It works {until(made.share)}, while this server runs.
            {LOOPBACK.test(location.hostname) && (
              <>
                {" "}
                This address is of this machine only; for others, start the server with{" "}
                <code>--host 0.0.0.0 --certificate CERT KEY</code>, or send the HTML file.
              </>
            )}
          </p>
        </>
      ) : (
        <div class="row">
          <label>
            Works for{" "}
            <select
              value={String(days)}
              onChange={(event) =>
                setDays(LIVES.find((life) => String(life.days) === event.currentTarget.value)?.days ?? null)
              }
            >
              {LIVES.map((life) => (
                <option key={life.name} value={String(life.days)}>
                  {life.name}
                </option>
              ))}
            </select>
          </label>
          <button type="button" class="primary" disabled={busy} onClick={create}>
            Create link
          </button>
        </div>
      )}
      {links.length > 0 && (
        <ul class="stack" aria-label="Links to this test">
          {links.map((share) => (
            <li key={share.name}>
              <code>{share.name.slice(0, 8)}</code> made {date(share.created)}, works {until(share)}{" "}
              <button type="button" class="quiet" disabled={busy} onClick={() => revoke(share.name)}>
                Revoke
              </button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const LOOPBACK = /^(localhost|127\..*|\[::1\])$/;

function until(share: Share): string {
  return share.expires === null ? "until it is revoked" : `until ${date(share.expires)}`;
}

function IssueSection({ suite, test, device }: ShareDialogProps) {
  return (
    <section>
      <h3>Issue text</h3>
      <div class="row">
        <CopyButton
          text={() => api.text(api.exportPath(suite, test.id, "markdown", device))}
          name="Copy as Markdown"
        />
        <span class="muted">environment, symptom, numbers, steps, WGSL</span>
      </div>
    </section>
  );
}
