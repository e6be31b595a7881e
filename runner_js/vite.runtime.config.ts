import { defineConfig } from "vite";

/**
 * @tapml/runtime and @tapml/runtime/tokenizer: a module each, which share nothing and depend on nothing; scripts/runtime.mjs
 * adds their types and package.json.
 */
export default defineConfig({
  publicDir: false,
  build: {
    outDir: "../backend/tapml/server/static/runtime",
    emptyOutDir: true,
    target: "es2022",
    lib: {
      entry: { "tapml-runtime": "src/runtime/index.ts", "tapml-tokenizer": "src/tokenizer/index.ts" },
      formats: ["es"],
      fileName: (_, name) => `${name}.js`,
    },
    // Of a library vite keeps the whitespace, for those who pack it again; pages load this one as it is.
    rollupOptions: { output: { minify: true } },
  },
});
