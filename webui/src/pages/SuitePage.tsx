import { useEffect } from "preact/hooks";
import { api } from "../api/client";
import { Loading, Problem, TopBar } from "../parts/Basics";
import { SuiteHeader } from "../parts/SuiteHeader";
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
          {suite.error ? (
            <Problem title="The suite could not be loaded." error={suite.error} retry={suite.reload} />
          ) : (
            <Loading what="the suite" />
          )}
        </main>
      </>
    );
  }
  return (
    <div class="shell">
      <TopBar />
      <main class="suite">
        <SuiteHeader suite={suite.data} />
        <Workspace suite={suite.data} />
      </main>
    </div>
  );
}
