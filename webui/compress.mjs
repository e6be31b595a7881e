/** Compressed files beside the built ones: the server hands them out as they are. */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";

const assets = join(import.meta.dirname, "../backend/tapml/server/static/webui/assets");
for (const name of readdirSync(assets).filter((found) => /\.(js|css)$/.test(found))) {
  const data = readFileSync(join(assets, name));
  writeFileSync(join(assets, `${name}.br`), brotliCompressSync(data));
  writeFileSync(join(assets, `${name}.gz`), gzipSync(data, { level: 9 }));
}
