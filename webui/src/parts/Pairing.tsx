/** How another browser becomes a device: a tab here, a phone by QR code or link. */

import { useState } from "preact/hooks";
import { api } from "../api/client";
import type { PairingLink } from "../api/types";
import { count } from "../model/format";
import { useAttempt } from "../state/resource";
import { Problem } from "./Basics";
import { CopyButton } from "./CopyButton";

export function Pairing() {
  const [found, setFound] = useState<PairingLink | null>(null);
  const { problem, dismiss, busy, attempt } = useAttempt();
  const ask = () => attempt(async () => setFound(await api.pair()));
  return (
    <section class="stack">
      <h3>Add a device</h3>
      <p class="row">
        <a href="/runner" target="_blank" rel="noopener">
          Use this browser as a device <span aria-hidden="true">↗</span>
        </a>
        <span class="muted">opens a tab that runs kernels as long as it stays open</span>
      </p>
      <p class="row">
        <button type="button" disabled={busy} onClick={ask}>
          {found?.link ? "Another pairing code" : "A phone or another machine…"}
        </button>
        {found?.link && (
          <span class="muted">pairs one browser, once, within {count(found.seconds / 60, "minute")}</span>
        )}
      </p>
      {problem && <Problem title="" error={problem} retry={ask} dismiss={dismiss} />}
      {found && (found.link ? <Link {...found} link={found.link} /> : <HowToListen {...found} />)}
    </section>
  );
}

function Link({ link, qr, secure }: PairingLink & { link: string }) {
  return (
    <>
      {!secure && (
        <p class="row problem" role="alert">
          This server speaks http: browsers of other machines offer no WebGPU to its pages. Start it again
          with --certificate CERT KEY.
        </p>
      )}
      <div class="row pairing">
        {qr && (
          <svg viewBox={`0 0 ${qr.size} ${qr.size}`} role="img" aria-label="QR code of the pairing link">
            <rect width={qr.size} height={qr.size} fill="#fff" />
            <path d={qr.path} fill="#000" shape-rendering="crispEdges" />
          </svg>
        )}
        <div class="stack">
          <code>{link}</code>
          <p class="row">
            <CopyButton name="Copy the link" text={() => Promise.resolve(link)} />
          </p>
        </div>
      </div>
    </>
  );
}

/** The server is for this machine alone, as it is without being told otherwise. */
function HowToListen({ address, port }: PairingLink) {
  return (
    <>
      <p>
        This server listens on this machine alone. For others to reach it, start it again so
        {address === null ? ", once this machine is in a network" : ""}:
      </p>
      <pre class="command">
        <code>tapml serve MODEL.suite --host 0.0.0.0 --port {port} --certificate CERT KEY</code>
      </pre>
      <p class="muted">
        {address !== null && (
          <>
            It is at <code>{`https://${address}:${port}/`}</code> then, and this button shows a code for the
            phone.{" "}
          </>
        )}
        Browsers offer WebGPU to https pages only; a certificate that you made yourself will do (
        <code>openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=tapml</code>):
        the phone asks once whether to trust it.
      </p>
    </>
  );
}
