import { defineConfig } from "vite";

/**
 * @tapml/agent: the page's module, its worker, and both for node; scripts/agent.mjs adds types and package.json,
 * scripts/agent_python.mjs Python.
 */
export default defineConfig({
  publicDir: false,
  build: {
    outDir: "../backend/tapml/server/static/agent",
    emptyOutDir: false,
    target: "es2022",
    lib: {
      entry: {
        "tapml-agent": "src/agent/index.ts",
        "tapml-events": "src/agent/events/index.ts",
        "tapml-tunnel": "src/agent/tunnel/index.ts",
        "tapml-agent-node": "src/agent/node.ts",
        "tapml-vm": "src/agent/worker.ts",
        "tapml-vm-node": "src/agent/vm_node.ts",
      },
      formats: ["es"],
      fileName: (_, name) => `${name}.js`,
    },
    rollupOptions: { external: /^node:/, output: { minify: true } },
  },
});
