/**
 * In: a TypeScript file of this folder. Out: what it exports.
 * Trap: osls loads its plugins and variables itself, also on a Node that cannot import TypeScript (before 22.18), and
 * takes functions only from .cjs. So the doors are plain JavaScript and what is behind them is bundled on the fly.
 * The bundle must lie inside the project: what it imports is looked for from there.
 */
const { rmSync } = require('node:fs');
const { dirname, join } = require('node:path');
const { pathToFileURL } = require('node:url');
const { build } = require('esbuild');

/** The folder with serverless.yml. */
const root = dirname(__dirname);

let count = 0;

async function importTypeScript(file) {
  const outfile = join(root, 'dist', `.infra-${process.pid}-${count++}.mjs`);
  await build({
    entryPoints: [join(__dirname, file)],
    outfile,
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
  });
  try {
    return await import(pathToFileURL(outfile).href);
  } finally {
    rmSync(outfile, { force: true });
  }
}

/** `--param config=other.yaml` of osls's options, or undefined. */
function configOf({ param }) {
  const option = [param].flat().findLast((text) => text?.startsWith('config='));
  return option?.slice('config='.length);
}

module.exports = { configOf, importTypeScript, root };
