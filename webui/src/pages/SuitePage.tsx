import { useEffect } from "preact/hooks";
import { api } from "../api/client";
import { Pending, TopBar } from "../parts/Basics";
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
          <Pending what="the suite" of={suite} />
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
