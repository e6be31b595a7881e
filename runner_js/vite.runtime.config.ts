import { defineConfig } from "vite";

/** @tapml/runtime: one module without dependencies; scripts/runtime.mjs adds its types and package.json. */
export default defineConfig({
  publicDir: false,
  build: {
    outDir: "../backend/tapml/server/static/runtime",
    emptyOutDir: true,
    target: "es2022",
    lib: { entry: "src/runtime/index.ts", formats: ["es"], fileName: () => "tapml-runtime.js" },
    // Of a library vite keeps the whitespace, for those who pack it again; pages load this one as it is.
    rollupOptions: { output: { minify: true } },
  },
});
