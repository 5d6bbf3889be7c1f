/**
 * Loaded into osls (packaging.ts) and into the build of the packages before they run: what all tests have in common is made
 * once, and then read. That is onnxruntime, compressed, and the bundles of one source. What is kept is found by the content that
 * it is made of; test/infra/every-stack/variants.deploy.test.ts compares the archives with those of a plain osls, and
 * test/infra/packages/packages.deploy.test.ts the bundles with those of a plain build.
 */
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire, Module } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { Transform } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { setFlagsFromString } from 'node:v8';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** Ignored by git. */
const KEPT = join(ROOT, 'node_modules', '.cache', 'once');
/** A smaller file is compressed sooner than it is found. */
const LEAST_BYTES = 1_000_000;
/** The library behind osls's zips counts each byte of onnxruntime in JavaScript. */
const CRC32 = 'buffer-crc32';
/** Folders of a checkout that its own bundles are made of; a copy of it has some of them. */
const SOURCES = [
  'cli',
  'console',
  'embedded-redis',
  'functions',
  'infra',
  'lib',
  'local',
  'onnx-import',
  'release',
  'sdk',
];
/** Who makes for so long was killed, and another one makes it. */
const MAKING_MS = 60_000;
const PAUSE_MS = 20;

/** Makes what is not there, or waits for another process that makes it. */
async function once(key, make) {
  const path = join(KEPT, createHash('sha256').update(key).digest('hex'));
  const making = `${path}.making`;
  while (!existsSync(path) && !isOurs(making)) await new Promise((done) => setTimeout(done, PAUSE_MS));
  if (existsSync(path)) return readFileSync(path);
  try {
    const made = await make();
    writeFileSync(`${path}.${process.pid}`, made);
    renameSync(`${path}.${process.pid}`, path);
    return made;
  } finally {
    rmSync(making, { recursive: true, force: true });
  }
}

function isOurs(making) {
  mkdirSync(KEPT, { recursive: true });
  try {
    mkdirSync(making);
    return true;
  } catch {
    return Date.now() - (statSync(making, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()) > MAKING_MS;
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

/**
 * Returns everything in a checkout that its bundles depend on, and where its packages are, because the bundles contain
 * those paths.
 */
function stateOf(checkout) {
  const files = SOURCES.filter((name) => existsSync(join(checkout, name))).flatMap((name) =>
    readdirSync(join(checkout, name), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules'))
      .map(({ parentPath, name: file }) => relative(checkout, join(parentPath, file))),
  );
  const contents = [...files.toSorted((a, b) => (a < b ? -1 : 1)), 'serverless.yml', 'package.json'].map(
    (file) => [file, digestOf(readFileSync(join(checkout, file)))],
  );
  const lock = digestOf(readFileSync(join(ROOT, 'package-lock.json')));
  const packages = relative(realpathSync(checkout), realpathSync(join(ROOT, 'node_modules')));
  return [contents, lock, packages, process.version];
}

let state;

const isSource = (path) => SOURCES.includes(path.split('/')[0]);
/** A package, or what a plugin makes, whose name shows its options. */
const isKnown = (path) => isSource(path) || /(^|\/)node_modules\/|^[\w-]+:/.test(path);

/** Stands for the folder or file of the output, which the bundles do not depend on. */
const PLACE = '<output>/';

/** In place of esbuild's. A worker's code lies in no folder of the sources: that is always built. */
async function buildOnce(build, options) {
  const { absWorkingDir: checkout = process.cwd(), outdir, outfile, entryPoints, ...others } = options;
  const named = Array.isArray(entryPoints)
    ? entryPoints.map((entry) => [entry.in ?? entry, entry.out])
    : Object.entries(entryPoints).map(([name, path]) => [path, name]);
  const entries = named.map(([path, name]) => [relative(checkout, resolve(checkout, path)), name]);
  if (options.write === false || !entries.every(([path]) => isSource(path))) return build(options);
  state ??= stateOf(checkout);
  const out = outdir ?? dirname(outfile);
  const place = outfile === undefined ? `${relative(checkout, out)}/` : relative(checkout, outfile);
  const kept = await once(JSON.stringify([entries, others, outfile === undefined, state]), async () => {
    const { metafile } = await build({ ...options, metafile: true });
    const unknown = Object.keys(metafile.inputs).find((path) => !isKnown(path));
    if (unknown !== undefined) throw new Error(`a bundle depends on ${unknown}, which is not in SOURCES`);
    const files = Object.keys(metafile.outputs).map((path) => [
      outfile === undefined ? relative(out, join(checkout, path)) : '',
      readFileSync(join(checkout, path), 'utf8'),
    ]);
    return JSON.stringify([JSON.stringify(metafile).replaceAll(`"${place}`, `"${PLACE}`), files]);
  });
  const [metafile, files] = JSON.parse(kept);
  mkdirSync(out, { recursive: true });
  for (const [name, text] of files) {
    const path = name === '' ? outfile : join(out, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return { errors: [], warnings: [], metafile: JSON.parse(metafile.replaceAll(`"${PLACE}`, `"${place}`)) };
}

/** In place of esbuild's. */
async function transformOnce({ transform, version }, code, options) {
  const make = async () => (await transform(code, options)).code;
  return { code: String(await once(JSON.stringify([version, options, code]), make)), warnings: [] };
}

const load = createRequire(import.meta.url);

/** An import would still have what a module exported when it was loaded, so another one takes its place. */
function replace(filename, exports) {
  load.cache[filename] = Object.assign(new Module(filename), { filename, loaded: true, exports });
}

/** The cache of compiled code has what V8 compiled at once. By default V8 compiles a function at its first call. */
function compileWhole(filename) {
  const { _compile } = Module.prototype;
  Module.prototype._compile = function compile(code, name, ...others) {
    const isWhole = filename.test(name);
    if (isWhole) setFlagsFromString('--no-lazy');
    try {
      return _compile.call(this, code, name, ...others);
    } finally {
      if (isWhole) setFlagsFromString('--lazy');
    }
  };
}

if (/\/npm(-cli\.js)?$/.test(process.argv[1] ?? '')) {
  // Packages of npm are unpacked as soon as they are packed.
  const { Gzip } = zlib;
  zlib.Gzip = function GzipSoon(options) {
    return new Gzip({ ...options, level: 1 });
  };
}

/** osls and the build of the packages; other commands have no use for it. */
if (/\/(serverless(\.js)?|packages\/build\.ts|staged\.ts)$/.test(process.argv[1] ?? '')) {
  const esbuild = load('esbuild');
  replace(load.resolve('esbuild'), {
    ...esbuild,
    build: (options) => buildOnce(esbuild.build, options),
    transform: (code, options) => transformOnce(esbuild, code, options),
  });
}

if (/\/serverless(\.js)?$/.test(process.argv[1] ?? '')) {
  // osls compiles its schema and V8 its code once, and not in each new home.
  process.env.SLS_SCHEMA_CACHE_BASE_DIR ??= KEPT;
  Module.enableCompileCache?.(join(KEPT, 'compile'));
  compileWhole(/\[generated-ajv-validate\]/);
  const crc32 = createRequire(realpathSync(process.argv[1])).resolve(CRC32);
  if (zlib.crc32) replace(crc32, { unsigned: zlib.crc32 });
}
