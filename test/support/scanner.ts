/**
 * Makes lib/codecs/numbers/wasm.ts of scan.wat (`npm run build:scanner`). The same version of wabt makes the same bytes, which a
 * test compares.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import openWabt from 'wabt';

const FOLDER = new URL('../../lib/codecs/numbers/', import.meta.url);
export const BUILT = new URL('wasm.ts', FOLDER);

export async function buildScanner(): Promise<string> {
  const wabt = await openWabt();
  const module = wabt.parseWat('scan.wat', readFileSync(new URL('scan.wat', FOLDER), 'utf8'), {
    simd: true,
    relaxed_simd: true,
  });
  const base64 = Buffer.from(module.toBinary({}).buffer).toString('base64');
  const lines = base64.match(/.{1,100}/g) ?? [];
  return [
    '/** scan.wat in binary, as base64. Written by `npm run build:scanner`. */',
    'export const WASM =',
    `${lines.map((line) => `  '${line}'`).join(' +\n')};`,
    '',
  ].join('\n');
}

// Without a top-level await, so that the tests that import it load at once.
if (import.meta.main) void buildScanner().then((built) => writeFileSync(BUILT, built));
