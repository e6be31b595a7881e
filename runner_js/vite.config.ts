import { defineConfig } from "vitest/config";

const { existsSync } = (await import(`node:${"fs"}`)) as { existsSync(path: string): boolean };
const { env } = (await import(`node:${"process"}`)) as { env: Record<string, string | undefined> };

/** Chromium's software GPU for Dawn, where a machine has it and none of its own. */
const SOFTWARE_GPU = "/usr/lib/chromium/vk_swiftshader_icd.json";

function gpuEnvironment(): Record<string, string> {
  const own = env.VK_ICD_FILENAMES || ["/dev/dri", "/dev/nvidiactl"].some(existsSync);
  if (own || !existsSync(SOFTWARE_GPU)) return {};
  return { VK_ICD_FILENAMES: SOFTWARE_GPU, XDG_RUNTIME_DIR: env.XDG_RUNTIME_DIR ?? "/tmp" };
}

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
      "/socket.io": { target: "http://127.0.0.1:8000", ws: true },
    },
  },
  test: {
    include: ["src/**/*.test.ts", "repro/**/*.test.ts"],
    environment: "node",
    // Dawn reads the environment of its process, which threads only copy.
    pool: "forks",
    env: gpuEnvironment(),
    // A software GPU shares the processor with all that runs beside it.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
  },
});
