import { defineConfig, type Plugin } from "vite";

/** The field's service gives this page at /console/ as static/console/index.html, whatever it is called here. */
const asIndex: Plugin = {
  name: "as-index",
  enforce: "post",
  generateBundle(_, bundle) {
    const page = bundle["console.html"];
    if (page) page.fileName = "index.html";
  },
};

/** The console is no part of the studio: it is served by `tapml field serve`, and neither loads the other. */
export default defineConfig({
  base: "/static/console/",
  plugins: [asIndex],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../backend/tapml/server/static/console",
    emptyOutDir: true,
    target: "es2022",
    rollupOptions: { input: "console.html" },
  },
});
