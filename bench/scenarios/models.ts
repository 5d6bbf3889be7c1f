/**
 * Many further models behind one function: the time to the answer of one that is not open, from S3 and from the disk, the memory of a
 * model, and the requests a second over 50 of them. S3 is on this machine; on AWS its three answers take longer.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { modelPrefix } from '../../lib/contract/names.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { onnxModel } from '../../test/support/onnx.ts';
import type { Bench, Scenario } from '../bench.ts';
import { pairwise, spreadOf } from '../measure.ts';
import { startChild } from '../processes/child.ts';
import { type NamedProcess, type NamedQuestion, nameOf } from '../processes/named.ts';
import type { Row } from '../report.ts';
import { JOB } from '../served.ts';

const MODELS = 200;
const OPEN = 50;
/** Each of these models is counted with a little more than 2 MB: 50 are open, and one more is not. */
const BUDGET_MB = 2 * OPEN + 1;
const REPEAT_MS = 600;
const NAME = `${MODELS} models of 100 bytes`;

export const models: Scenario = {
  name: 'models',
  about: 'opening one of 200 further models, closing another one for it, memory, and requests over 50',
  run: async (bench) => (bench.wants(NAME) ? measure(bench) : []),
};

async function measure(bench: Bench): Promise<Row[]> {
  const question = { folders: await publishAll(bench), open: OPEN, repeatMs: bench.ms(REPEAT_MS) };
  const all: Repeat[] = [];
  for (let repeat = 0; repeat < bench.repeats; repeat++) all.push(await measureOnce(bench, question, repeat));
  return rowsOf(all);
}

/** @returns the folders of the models */
async function publishAll(bench: Bench): Promise<string[]> {
  const { s3 } = await bench.aws();
  const folders: string[] = [];
  for (let number = 0; number <= MODELS; number++) {
    const folder = join(bench.folder, 'named', String(number));
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'model.onnx'), addModel(number));
    const prefix = number === 0 ? modelPrefix(JOB) : modelPrefix(JOB, nameOf(number));
    await publishModel(s3, { bucket: JOB, prefix }, folder);
    folders.push(folder);
  }
  return folders;
}

/** y = x + number. */
function addModel(number: number): Uint8Array {
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1] }],
    nodes: [{ op: 'Add', inputs: ['x', 'n'], outputs: ['y'] }],
    weights: [{ name: 'n', dtype: 'float32', shape: [1], data: Float32Array.of(number) }],
  });
}

/** Each number comes from a process that did nothing else before. */
async function measureOnce(bench: Bench, question: NamedQuestion, repeat: number) {
  const aws = await bench.aws();
  const { url } = await bench.redis();
  const inProcess = async <T>(
    method: string,
    call: (child: Awaited<ReturnType<typeof startChild<NamedProcess>>>) => Promise<T>,
  ) => {
    const folder = join(bench.folder, `${method}-${repeat}`);
    await mkdir(folder);
    // One record a run: these models are not verified, and each would warn of it.
    const config = {
      jobName: JOB,
      batchSize: 1,
      modelRefreshSeconds: 3_600,
      models: { memoryMB: BUDGET_MB },
    };
    const child = await startChild<NamedProcess>('named', {
      role: 'server',
      flags: ['--expose-gc'],
      environment: {
        ...aws.environment,
        TMPDIR: folder,
        CLUSTER_SERVING_CONFIG: JSON.stringify(config),
        CLUSTER_SERVING_BUCKET: JOB,
        CLUSTER_SERVING_REDIS_URL: url,
        CLUSTER_SERVING_METRICS: 'off',
      },
    });
    try {
      return await call(child);
    } finally {
      await child.close();
    }
  };
  return {
    times: await inProcess('times', (child) => child.call('times', question)),
    memory: await inProcess('memory', (child) => child.call('memory', question)),
    rawMemory: await inProcess('raw', (child) => child.call('rawMemory', question)),
  };
}

type Repeat = Awaited<ReturnType<typeof measureOnce>>;

function rowsOf(all: readonly Repeat[]): Row[] {
  const row = (
    name: string,
    metric: string,
    baseUnit: string,
    [ours, raw]: readonly [ours: readonly number[], raw: readonly number[]],
  ): Row => ({
    scenario: 'models',
    name,
    metric,
    unit: 'x',
    raw: spreadOf(raw).median,
    ours: spreadOf(ours).median,
    baseUnit,
    value: pairwise(ours, raw, (a, b) => a / b),
  });
  const opening = (name: string, key: 'fromS3' | 'evicting' | 'fromDisk') =>
    row(name, 'first answer against opening and running the file', 'ms', [
      all.map(({ times }) => times[key].ours),
      all.map(({ times }) => times[key].raw),
    ]);
  const rates = (key: keyof Repeat['times']['rates']) => all.map(({ times }) => times.rates[key]);
  const memories = (key: 'open' | 'closed') => all.map(({ memory }) => memory[key]);
  const raw = all.map(({ rawMemory }) => rawMemory);
  return [
    opening(`one of ${MODELS}, from S3, with room`, 'fromS3'),
    opening(`one of ${MODELS}, from S3, another one closed`, 'evicting'),
    opening(`one of ${MODELS}, from the disk, another one closed`, 'fromDisk'),
    row('an open model', 'memory against a session', 'MB', [memories('open'), raw]),
    row('a model that was open', 'memory against a session', 'MB', [memories('closed'), raw]),
    row("one further model against the job's own", 'requests a second', '/s', [rates('one'), rates('own')]),
    row(`${OPEN} in turn against one`, 'requests a second', '/s', [rates('all'), rates('one')]),
    row(`${OPEN} in turn against one, onnxruntime alone`, 'runs a second', '/s', [
      rates('rawAll'),
      rates('rawOne'),
    ]),
  ];
}
