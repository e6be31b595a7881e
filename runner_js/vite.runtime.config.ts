import { defineConfig } from "vite";

/**
 * @tapml/runtime, @tapml/runtime/tokenizer and @tapml/runtime/generation: a module each, which depend on nothing;
 * scripts/runtime.mjs adds their types and package.json.
 */
export default defineConfig({
  publicDir: false,
  build: {
    outDir: "../backend/tapml/server/static/runtime",
    emptyOutDir: true,
    target: "es2022",
    lib: {
      entry: {
        "tapml-runtime": "src/runtime/index.ts",
        "tapml-tokenizer": "src/tokenizer/index.ts",
        "tapml-generation": "src/generation/index.ts",
      },
      formats: ["es"],
      fileName: (_, name) => `${name}.js`,
    },
    // Of a library vite keeps the whitespace, for those who pack it again; pages load this one as it is.
    rollupOptions: { output: { minify: true } },
  },
});
