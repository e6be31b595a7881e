import { defineConfig } from "vite";

/**
 * @tapml/runtime, @tapml/runtime/tokenizer and @tapml/runtime/generation: a module each, which depend on nothing;
 * scripts/runtime.mjs adds their types and package.json. With `--mode timing` what the first of them imports where a page
 * asks for timing at load: built by itself, or vite would move what both have into a third module, which all pages loaded.
 */
export default defineConfig(({ mode }) => ({
  publicDir: false,
  plugins: [
    {
      name: "timing",
      enforce: "pre",
      resolveId: (id) => (id === "./by_time" ? { id: "./tapml-timing.js", external: true } : null),
    },
  ],
  build: {
    outDir: "../backend/tapml/server/static/runtime",
    emptyOutDir: mode !== "timing",
    target: "es2022",
    modulePreload: false,
    lib: {
      entry:
        mode === "timing"
          ? { "tapml-timing": "src/runtime/by_time.ts" }
          : {
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
}));
