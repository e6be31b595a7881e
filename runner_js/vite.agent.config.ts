import { defineConfig, type Plugin } from "vite";

/**
 * @tapml/agent: the page's module, its worker, and both for node; scripts/agent.mjs adds types and package.json,
 * scripts/agent_python.mjs Python.
 */
export default defineConfig({
  publicDir: false,
  plugins: [sqliteFiles()],
  build: {
    outDir: "../backend/tapml/server/static/agent",
    emptyOutDir: false,
    target: "es2022",
    lib: {
      entry: {
        "tapml-agent": "src/agent/index.ts",
        "tapml-events": "src/agent/events/index.ts",
        "tapml-tunnel": "src/agent/tunnel/index.ts",
        "tapml-gpu": "src/agent/gpu/index.ts",
        "tapml-agent-node": "src/agent/node.ts",
        "tapml-vm": "src/agent/worker.ts",
        "tapml-storage": "src/agent/storage/worker.ts",
        "tapml-worker-node": "src/agent/worker_node.ts",
      },
      formats: ["es"],
      fileName: (_, name) => `${name}.js`,
    },
    rollupOptions: {
      external: /^node:/,
      output: {
        minify: true,
        // SQLite's module, and what several modules have in common.
        chunkFileNames: ({ moduleIds }) =>
          moduleIds.some((id) => id.includes("/sqlite-wasm/")) ? "tapml-sqlite.js" : "tapml-[name].js",
      },
    },
  },
});

/** SQLite's module takes its .wasm where the storage worker says; the workers that it would start are not used. */
function sqliteFiles(): Plugin {
  return {
    name: "sqlite-files",
    enforce: "pre",
    transform(code, id) {
      if (!id.includes("/@sqlite.org/sqlite-wasm/")) return null;
      return code.replace(
        /new URL\("(sqlite3[\w.-]+)", import\.meta\.url\)/g,
        'new URL("$1", "https://tapml.invalid")',
      );
    },
  };
}
