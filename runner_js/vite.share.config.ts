import { defineConfig, type Plugin } from "vite";

/** The server gives this page at /s/<id> as static/share/index.html, whatever it is called here. */
const asIndex: Plugin = {
  name: "as-index",
  enforce: "post",
  generateBundle(_, bundle) {
    const page = bundle["share.html"];
    if (page) page.fileName = "index.html";
  },
};

/** The page behind a shared link: small, for it is opened by people who have nothing of tapml yet. */
export default defineConfig({
  base: "/static/share/",
  plugins: [asIndex],
  build: {
    outDir: "../backend/tapml/server/static/share",
    emptyOutDir: true,
    target: "es2022",
    rollupOptions: { input: "share.html" },
  },
  worker: { format: "es" },
});
