import { defineConfig } from "vite";

/** Modules that the first one imports where it needs them, by what builds them. */
const OWN: Readonly<Record<string, { file: string; name: string }>> = {
  timing: { file: "by_time", name: "tapml-timing" },
  preparing: { file: "preparing", name: "tapml-preparing" },
};

/**
 * @tapml/runtime, @tapml/runtime/tokenizer and @tapml/runtime/generation: a module each, which depend on nothing;
 * scripts/runtime.mjs adds their types and package.json. With `--mode` one that the first of them imports where a page needs
 * it: built by itself, or vite would move what both have into a third module, which all pages loaded.
 */
export default defineConfig(({ mode }) => ({
  publicDir: false,
  plugins: [
    {
      name: "own",
      enforce: "pre",
      resolveId: (id) => {
        const own = Object.values(OWN).find(({ file }) => id === `./${file}`);
        return own ? { id: `./${own.name}.js`, external: true } : null;
      },
    },
  ],
  build: {
    outDir: "../backend/tapml/server/static/runtime",
    emptyOutDir: !OWN[mode],
    target: "es2022",
    modulePreload: false,
    lib: {
      entry: OWN[mode]
        ? { [OWN[mode].name]: `src/runtime/${OWN[mode].file}.ts` }
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
