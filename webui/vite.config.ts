import { defineConfig } from "vitest/config";

export default defineConfig({
  // Flask serves the built files from here, and this index.html at / and /suites/...
  base: "/static/webui/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../backend/tapml/server/static/webui",
    emptyOutDir: true,
    target: "es2022",
  },
  worker: { format: "es" },
  server: {
    // `npm run dev` beside a running `tapml serve`.
    proxy: {
      "/api": "http://127.0.0.1:8808",
      "/blobs": "http://127.0.0.1:8808",
      "/runner": "http://127.0.0.1:8808",
      "/socket.io": { target: "http://127.0.0.1:8808", ws: true },
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node", testTimeout: 120_000 },
});
