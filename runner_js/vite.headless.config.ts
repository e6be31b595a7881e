import { defineConfig } from "vite";

/** The runner for node and Deno as one file without dependencies: `tapml device` starts it. */
export default defineConfig({
  publicDir: false,
  // tvmjs asks for its folder where it finds node, though it reads nothing from there: its wasm comes as bytes.
  define: { __dirname: '"/"' },
  build: {
    outDir: "../backend/tapml/server/static/headless",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    chunkSizeWarningLimit: 1000,
    rollupOptions: {
      input: "src/headless.ts",
      output: { entryFileNames: "device.mjs", inlineDynamicImports: true },
    },
  },
});
