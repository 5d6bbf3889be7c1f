/**
 * Loads a module of this folder for osls: built JavaScript in the published package, TypeScript in the checkout. osls
 * may run on a Node without TypeScript support (before 22.18), so the checkout's module is bundled on the fly, inside
 * the checkout because its imports are resolved from there.
 */
const { existsSync, rmSync } = require('node:fs');
const { createRequire } = require('node:module');
const { dirname, join } = require('node:path');
const { pathToFileURL } = require('node:url');

/** The folder that this code was installed to. */
const packageFolder = dirname(__dirname);
/** The folder with serverless.yml, which for osls is the current directory. In the checkout both are the same. */
const serviceFolder = process.cwd();
const isCheckout = existsSync(join(__dirname, 'template', 'config.ts'));

let count = 0;

/** @param name of the file, without its ending */
async function importModule(name) {
  const file = isCheckout ? await bundled(name) : join(__dirname, `${name}.mjs`);
  try {
    return await import(pathToFileURL(file).href);
  } finally {
    if (isCheckout) rmSync(file, { force: true });
  }
}

async function bundled(name) {
  // Not a dependency of the published package.
  const { build } = require('esbuild');
  const outfile = join(packageFolder, 'dist', `.infra-${process.pid}-${count++}.mjs`);
  await build({
    entryPoints: [join(__dirname, `${name}.ts`)],
    outfile,
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
  });
  return outfile;
}

/** The settings and the model of the sample, in the checkout and in the published package. */
const SAMPLE = join(packageFolder, 'examples', 'digits', 'config.yaml');

/** `--param config=other.yaml` of osls's options, the sample's with `--param sample=on`, or undefined. */
function configOf({ param }) {
  const [config, sample = 'off'] = ['config=', 'sample='].map((start) => {
    const option = [param].flat().findLast((text) => text?.startsWith(start));
    return option?.slice(start.length);
  });
  if (sample === 'off') return config;
  if (sample !== 'on') throw wrong(`param sample ${JSON.stringify(sample)}: expected "on", "off"`);
  if (config === undefined) return SAMPLE;
  throw wrong('params sample and config: the sample has a config of its own; give one of them');
}

function wrong(message) {
  const error = Object.assign(new Error(message), { name: 'ServingError', code: 'bad_config' });
  error.stack = message;
  return error;
}

/** A module as osls has it: a client that comes from osls needs its commands too. */
function ofOsls(name) {
  return createRequire(require.resolve('serverless/package.json'))(name);
}

module.exports = { SAMPLE, configOf, importModule, isCheckout, ofOsls, packageFolder, serviceFolder };
