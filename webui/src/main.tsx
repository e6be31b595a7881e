import { render } from "preact";
import { NotFound } from "./pages/NotFound";
import { SuitePage } from "./pages/SuitePage";
import { SuitesPage } from "./pages/SuitesPage";
import { useRoute } from "./state/router";
import "../../runner_js/kit/kit.css";
import "./style/base.css";
import "./style/common.css";
import "./style/suites.css";
import "./style/suite.css";
import "./style/matrix.css";
import "./style/offload.css";
import "./style/locate.css";
import "./style/tensors.css";
import "./style/generation.css";
import "./style/graph.css";
import "./style/evidence.css";
import "./style/palette.css";
import "./style/detail.css";
import "./style/share.css";
import "../../runner_js/kit/listing.css";
import "./style/wgsl.css";
import "./style/history.css";

function App() {
  const route = useRoute();
  switch (route.page) {
    case "suites":
      return <SuitesPage />;
    case "suite":
      return <SuitePage key={route.suite} id={route.suite} />;
    case "unknown":
      return <NotFound path={route.path} />;
  }
}

// A cookie carries the pairing link's token from here on: neither address bar nor history need to show it.
const address = new URL(location.href);
if (address.searchParams.has("token")) {
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
}

const root = document.getElementById("app");
if (root !== null) render(<App />, root);
