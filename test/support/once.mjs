/**
 * Loaded into osls before it runs (packaging.ts): what the packages of all tests have in common is made once, and then read.
 * That is onnxruntime, compressed, and the bundles of one source. What is kept is found by the content that it is made of;
 * test/infra/every-stack/variants.deploy.test.ts compares the archives with those of a plain osls.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, realpathSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire, Module } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { Transform } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** Ignored by git. */
const KEPT = join(ROOT, 'node_modules', '.cache', 'once');
/** A smaller file is compressed sooner than it is found. */
const LEAST_BYTES = 1_000_000;
/** What osls's zips come from counts each byte of onnxruntime with, in JavaScript. */
const CRC32 = 'buffer-crc32';
/** Folders of a checkout that its own bundles are made of. */
const SOURCES = ['onnx-import', 'functions', 'infra', 'lib', 'release'];

/** Makes what is not there. Others may make or read it at the same time. */
async function once(key, make) {
  const path = join(KEPT, createHash('sha256').update(key).digest('hex'));
  try {
    return readFileSync(path);
  } catch {
    const made = await make();
    mkdirSync(KEPT, { recursive: true });
    writeFileSync(`${path}.${process.pid}`, made);
    renameSync(`${path}.${process.pid}`, path);
    return made;
  }
}

function digestOf(bytes) {
  return createHash('sha256').update(bytes).digest('hex');
}

// As CommonJS modules have it, which take its classes from this object.
const zlib = process.getBuiltinModule('zlib');
const deflateRaw = promisify(zlib.deflateRaw);

/** In place of zlib's stream. */
zlib.DeflateRaw = function DeflateOnce(options) {
  const pieces = [];
  const digest = createHash('sha256');
  const deflated = () => {
    const make = () => deflateRaw(Buffer.concat(pieces), options);
    if (pieces.reduce((sum, { length }) => sum + length, 0) < LEAST_BYTES) return make();
    return once(JSON.stringify([options, process.versions.zlib, digest.digest('hex')]), make);
  };
  return new Transform({
    transform(piece, _, done) {
      pieces.push(piece);
      digest.update(piece);
      done();
    },
    async flush(done) {
      try {
        done(null, await deflated());
      } catch (error) {
        done(error);
      }
    },
  });
};

/** Of everything in a checkout that its bundles depend on, and of where its packages are, whose paths are in them. */
function stateOf(checkout) {
  const files = SOURCES.flatMap((name) =>
    readdirSync(join(checkout, name), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules'))
      .map(({ parentPath, name: file }) => relative(checkout, join(parentPath, file))),
  );
  const contents = [...files.toSorted((a, b) => (a < b ? -1 : 1)), 'serverless.yml', 'package.json'].map(
    (file) => [file, digestOf(readFileSync(join(checkout, file)))],
  );
  const lock = digestOf(readFileSync(join(ROOT, 'package-lock.json')));
  const packages = relative(realpathSync(checkout), realpathSync(join(ROOT, 'node_modules')));
  // A plugin of the bundles knows the processor, which no option of esbuild tells.
  return [contents, lock, packages, process.argv.find((word) => word.startsWith('arch=')), process.version];
}

let state;

/** In place of esbuild's. A worker's code lies in no folder of the sources: that is always built. */
async function buildOnce(build, options) {
  const { absWorkingDir: checkout = process.cwd(), outdir, outfile, entryPoints, ...others } = options;
  const entries = entryPoints.map((entry) => [
    relative(checkout, resolve(checkout, entry.in ?? entry)),
    entry.out,
  ]);
  if (!entries.every(([path]) => SOURCES.includes(path.split('/')[0]))) return build(options);
  state ??= stateOf(checkout);
  const out = outdir ?? dirname(outfile);
  const key = JSON.stringify([entries, relative(checkout, out), others, state]);
  const kept = await once(key, async () => {
    const { metafile } = await build({ ...options, metafile: true });
    const files = Object.keys(metafile.outputs).map((path) => [
      outfile === undefined ? relative(out, join(checkout, path)) : '',
      readFileSync(join(checkout, path), 'utf8'),
    ]);
    return JSON.stringify({ metafile, files });
  });
  const { metafile, files } = JSON.parse(kept);
  mkdirSync(out, { recursive: true });
  for (const [name, text] of files) writeFileSync(name === '' ? outfile : join(out, name), text);
  return { errors: [], warnings: [], metafile };
}

const load = createRequire(import.meta.url);

/** An import would still have what a module exported when it was loaded, so another one takes its place. */
function replace(filename, exports) {
  load.cache[filename] = Object.assign(new Module(filename), { filename, loaded: true, exports });
}

// npm and other commands have no use for it.
if (/\/serverless(\.js)?$/.test(process.argv[1] ?? '')) {
  // osls compiles its schema and V8 its code once, and not in each new home.
  process.env.SLS_SCHEMA_CACHE_BASE_DIR ??= KEPT;
  Module.enableCompileCache?.(join(KEPT, 'compile'));
  const crc32 = createRequire(realpathSync(process.argv[1])).resolve(CRC32);
  if (zlib.crc32) replace(crc32, { unsigned: zlib.crc32 });
  const { build, ...esbuild } = load('esbuild');
  replace(load.resolve('esbuild'), { ...esbuild, build: (options) => buildOnce(build, options) });
}
