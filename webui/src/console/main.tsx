import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asError, request } from "../api/client";
import type { FieldDocument } from "./model";
import { Devices, Failures, Releases, Tasks, TunnelTraffic } from "./views";
import "../../../runner_js/kit/kit.css";
import "../style/base.css";
import "../style/common.css";
import "../style/evidence.css";
import "./console.css";

const EVERY_MS = 1000;
const VIEWS = {
  releases: Releases,
  tasks: Tasks,
  devices: Devices,
  failures: Failures,
  traffic: TunnelTraffic,
};
type View = keyof typeof VIEWS;

const KEPT = "tapml.console";
let key = kept();

function kept(): string {
  try {
    return sessionStorage.getItem(KEPT) ?? "";
  } catch {
    return "";
  }
}

/**
 * #KEY/VIEW of the address that `tapml field serve` printed: no request tells what is behind the #. The key is kept for this
 * tab and taken out of the address, so that no link has it, and none that is copied.
 */
function place(): View {
  const [given = "", view = ""] = location.hash.slice(1).split("/");
  if (given !== "") {
    key = given;
    try {
      sessionStorage.setItem(KEPT, key);
    } catch {
      // Without storage the key is gone when the page is loaded again.
    }
    history.replaceState(null, "", `#/${view}`);
  }
  return view in VIEWS ? (view as View) : "releases";
}

function usePlace(): View {
  const [found, set] = useState(place);
  useEffect(() => {
    const changed = () => set(place());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return found;
}

/** What the service says, once a second while the page is seen. */
function useField() {
  const [state, set] = useState<{ document: FieldDocument | null; error: Error | null }>({
    document: null,
    error: null,
  });
  useEffect(() => {
    let over = false;
    let timer = 0;
    const look = async () => {
      try {
        if (!window.document.hidden) {
          const document = await request<FieldDocument>("/field/console", {
            headers: { "Tapml-Console": key },
          });
          if (!over) set({ document, error: null });
        }
      } catch (thrown) {
        if (!over) set(({ document }) => ({ document, error: asError(thrown) }));
      }
      if (!over) timer = window.setTimeout(look, EVERY_MS);
    };
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, []);
  return state;
}

function Console() {
  const view = usePlace();
  const { document, error } = useField();
  const failed = document ? document.failures.length + document.failed_runs.length : 0;
  const Shown = VIEWS[view];
  return (
    <>
      <header class="topbar">
        <h1 class="brand">The field</h1>
        <nav class="row" aria-label="Pages">
          {Object.keys(VIEWS).map((name) => (
            <a key={name} href={`#/${name}`} aria-current={name === view ? "page" : undefined}>
              {name === "failures" && failed > 0 ? `failures (${failed})` : name}
            </a>
          ))}
        </nav>
      </header>
      <main class="page stack console">
        {error && (
          <p class="reason" role="alert">
            {error.message}
          </p>
        )}
        {document ? <Shown document={document} /> : !error && <p>Loading…</p>}
      </main>
    </>
  );
}

const root = document.getElementById("app");
if (root !== null) render(<Console />, root);
