import { useEffect } from "preact/hooks";
import { api } from "../api/client";
import { Link, Pending, TopBar } from "../parts/Basics";
import { SuiteNotes, SuiteTitle } from "../parts/SuiteHeader";
import { Workspace } from "../parts/Workspace";
import { useResource } from "../state/resource";

export function SuitePage(props: { id: string }) {
  const suite = useResource(props.id, () => api.suite(props.id));
  useEffect(() => {
    document.title = suite.data === null ? "tapml" : `${suite.data.name} · tapml`;
  }, [suite.data]);
  if (suite.data === null) {
    return (
      <>
        <TopBar />
        <main class="page">
          <h1>{props.id}</h1>
          <Pending what="the suite" of={suite} />
          {suite.error && (
            <p>
              <Link href="/">All suites</Link>
            </p>
          )}
        </main>
      </>
    );
  }
  return (
    <div class="shell">
      <TopBar>
        <SuiteTitle suite={suite.data} />
      </TopBar>
      <main class="suite">
        <SuiteNotes suite={suite.data} />
        <Workspace suite={suite.data} />
      </main>
    </div>
  );
}
