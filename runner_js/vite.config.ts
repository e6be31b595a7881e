import { defineConfig } from "vitest/config";

export default defineConfig({
  // Flask serves index.html at /runner and the rest from here.
  base: "/static/runner/",
  build: {
    outDir: "../backend/tapml/server/static/runner",
    emptyOutDir: true,
    target: "es2022",
    // Nearly all of it is tvmjs, which the worker needs at once.
    chunkSizeWarningLimit: 1000,
  },
  worker: { format: "es" },
  server: {
    // `npm run dev` beside a running `tapml serve`.
    proxy: {
      "/api": "http://127.0.0.1:8000",
      "/blobs": "http://127.0.0.1:8000",
      "/static/runtime.wasm": "http://127.0.0.1:8000",
      "/socket.io": { target: "http://127.0.0.1:8000", ws: true },
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
