/**
 * In: one record or result in each format. Out: how long reading and writing it takes, beside a raw run of its model.
 * Trap: a codec takes microseconds, so a call here does it many times over, each time with another record; and what
 * it returns is compared with what went in.
 */
import { decodeImage, imageTensor } from '../../lib/codecs/image/image.ts';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { decodeMessage, encodeMessage } from '../../lib/codecs/message.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Inputs } from '../../lib/contract/values.ts';
import { nestedTensor } from '../../lib/pipeline/nested.ts';
import { outputsText } from '../../lib/pipeline/postprocess.ts';
import { parseResult, serializeResult } from '../../lib/redis/result/fields.ts';
import type { Scenario } from '../bench.ts';
import { type BenchImage, makeImage } from '../images.ts';
import {
  type Contender,
  interleave,
  type Measured,
  pairwise,
  perRepeat,
  quantile,
  spreadOf,
} from '../measure.ts';
import { arrowMessage, inputsOf } from '../messages.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { answersOf, openRaw } from '../raw.ts';
import { bytesText, type Line, type Row } from '../report.ts';
import { nestedNumbers } from '../served.ts';
import { rawContender } from './single.ts';

const REPEAT_MS = 60;
const RECORDS = 8;
/** One call does as many as this takes. */
const CALL_MS = 0.3;

/** One thing to do: `work` on record number `index`, `check` of what it made of it. */
interface Task {
  readonly name: string;
  readonly work: (index: number) => unknown;
  readonly check: (made: unknown, index: number) => void | Promise<void>;
}

export const codecs: Scenario = {
  name: 'codecs',
  about: 'reading and writing one record, result or image in each format',
  async run(bench) {
    const lines: Line[] = [];
    for (const name of ['mlp', 'convnet'] as const) {
      const model = await bench.model(name);
      const rows = randomRows(41, model.rowShape, RECORDS);
      const tasks = recordTasks(model, rows);
      if (name === 'convnet') tasks.push(...(await imageTasks()));
      else tasks.push(...resultTasks(10), ...resultTasks(1000));
      const wanted = tasks.filter((task) => bench.wants(task.name));
      if (wanted.length > 0) lines.push(...(await measureTasks(model, rows, wanted)));
    }
    return lines;
  },
};

async function measureTasks(model: BenchModel, rows: readonly Float32Array[], tasks: readonly Task[]) {
  const raw = await openRaw(model);
  try {
    const answers = await answersOf(raw, rows);
    const repeated: Repeated[] = [];
    for (const task of tasks) repeated.push(await repeat(task));
    const contenders = [
      rawContender('raw', raw, rows, answers),
      ...repeated.map(({ contender }) => contender),
    ];
    const [rawTimes, ...measured] = await interleave(contenders as Contender[], { repeatMs: REPEAT_MS });
    const rawUs = medians(rawTimes as Measured, 1);
    return measured.map((of, i): Row => {
      const ours = medians(of, repeated[i]?.times as number);
      return {
        scenario: 'codecs',
        name: `${model.name}: ${of.name}`,
        metric: 'share of a raw run',
        unit: '%',
        raw: spreadOf(rawUs).median,
        ours: spreadOf(ours).median,
        baseUnit: 'us',
        value: pairwise(ours, rawUs, (a, b) => (100 * a) / b),
      };
    });
  } finally {
    await raw.close();
  }
}

/** us of one piece of work, by repeat. */
function medians(measured: Measured, times: number): readonly number[] {
  return perRepeat(measured, (sorted) => (quantile(sorted, 0.5) * 1000) / times);
}

interface Repeated {
  readonly contender: Contender;
  /** Pieces of work in one call. */
  readonly times: number;
}

/** The task done so often in one call that the clock can tell. */
async function repeat(task: Task): Promise<Repeated> {
  let times = 0;
  const begin = performance.now();
  for (; times < RECORDS || performance.now() - begin < 50; times++) await task.work(times % RECORDS);
  times = Math.max(1, Math.round((CALL_MS * times) / (performance.now() - begin)));
  const isAsync = task.work(0) instanceof Promise;
  const sync = () => {
    let made: unknown;
    for (let i = 0; i < times; i++) made = task.work(i % RECORDS);
    return made;
  };
  const inTurns = async () => {
    let made: unknown;
    for (let i = 0; i < times; i++) made = await task.work(i % RECORDS);
    return made;
  };
  for (let index = 0; index < RECORDS; index++) await task.check(await task.work(index), index);
  const contender = {
    name: task.name,
    call: isAsync ? inTurns : sync,
    verify: (made: readonly unknown[]) => task.check(made.at(-1), (times - 1) % RECORDS),
  };
  return { contender, times };
}

function recordTasks(model: BenchModel, rows: readonly Float32Array[]): Task[] {
  const { input, rowShape } = model;
  const inputs = rows.map((row) => inputsOf(model, row));
  const writers = {
    safetensors: (index: number) => encodeMessage('record', inputs[index] as Inputs),
    Arrow: (index: number) => arrowMessage('record', inputs[index] as Inputs),
  };
  const nested = rows.map((row) => nestedNumbers(row, rowShape));
  const bodies = nested.map((value) => Buffer.from(JSON.stringify({ instances: [{ [input]: value }] })));
  const same = (data: unknown, index: number) =>
    sameNumbers(data as Float32Array, rows[index] as Float32Array);
  const binary = Object.entries(writers).flatMap(([format, write]): Task[] => {
    // Once through JSON, so that the texts are flat, as they are when they come from SQS.
    const messages = JSON.parse(JSON.stringify(rows.map((_, index) => write(index)))) as string[];
    const read = (index: number) => decodeMessage(messages[index] as string);
    const check = (made: unknown, index: number) =>
      same(tensorOf((made as ReturnType<typeof read>).inputs), index);
    const note = `${bytesText(messages[0]?.length ?? 0)} in base64`;
    return [
      { name: `read a message, ${format}, ${note}`, work: read, check },
      {
        name: `write a message, ${format}`,
        work: write,
        check: (made, index) => check(decodeMessage(made as string), index),
      },
    ];
  });
  const readJson = (index: number) => {
    const value = decodeInstances(bodies[index] as Buffer)[0]?.get(input);
    return nestedTensor(value?.kind === 'json' ? value.value : undefined, 'float32').data;
  };
  return [
    ...binary,
    { name: `read a JSON body, ${bytesText(bodies[0]?.length ?? 0)}`, work: readJson, check: same },
    {
      name: 'write a JSON body (JSON.stringify)',
      work: (index) => JSON.stringify({ instances: [{ [input]: nested[index] }] }),
      check: (made, index) => sameText(made as string, (bodies[index] as Buffer).toString()),
    },
  ];
}

function tensorOf(inputs: Inputs | ServingError): unknown {
  if (inputs instanceof ServingError) throw inputs;
  const value = [...inputs.values()][0];
  return value?.kind === 'tensor' ? value.tensor.data : undefined;
}

function sameNumbers(made: ArrayLike<number>, expected: ArrayLike<number>): void {
  const same = made.length === expected.length && Array.from(expected).every((value, i) => value === made[i]);
  if (!same) throw new Error('a codec does not give back what went in');
}

function sameText(made: string, expected: string): void {
  if (made !== expected) throw new Error('a codec does not write what was expected');
}

/** What becomes of a result of `count` floats: the text of POST /predict, the fields in Redis, and back. */
function resultTasks(count: number): Task[] {
  const rows = randomRows(42, [count], RECORDS);
  const outputs = rows.map((data) => [{ name: 'scores', dtype: 'float32' as const, shape: [count], data }]);
  const toStored = (index: number) => serializeResult({ ok: true, outputs: outputs[index] ?? [] }, undefined);
  const stored = rows.map((_, index) => ({ ...toStored(index), model: 'bench', finishedAt: '0' }));
  const fromStored = (index: number) => parseResult('record', stored[index] ?? {})?.outputs[0]?.data;
  const same = (data: unknown, index: number) =>
    sameNumbers(data as Float32Array, rows[index] as Float32Array);
  return [
    {
      name: `write a result of ${count} floats as text`,
      work: (index) => outputsText(outputs[index] ?? []),
      check: (made, index) => same(Float32Array.from(JSON.parse(made as string).data as number[]), index),
    },
    {
      name: `write a result of ${count} floats for Redis (Arrow)`,
      work: toStored,
      check: (made, index) => sameText((made as { value: string }).value, stored[index]?.value ?? ''),
    },
    { name: `read a result of ${count} floats from Redis`, work: fromStored, check: same },
  ];
}

async function imageTasks(): Promise<Task[]> {
  const [small, large] = await Promise.all(
    [
      { first: 200, width: 96, height: 96 },
      { first: 300, width: 500, height: 375 },
    ].map(({ first, width, height }) =>
      Promise.all(Array.from({ length: RECORDS }, (_, i) => makeImage(first + i, width, height))),
    ),
  );
  const decoding = (images: readonly BenchImage[], size: string) =>
    (['png', 'jpeg'] as const).map(
      (format): Task => ({
        name: `decode a ${format.toUpperCase()} of ${size}, ${bytesText(images[0]?.[format].length ?? 0)}`,
        work: (index) => decodeImage(images[index]?.[format] as Buffer),
        check: (made, index) =>
          sameNumbers((made as { data: Uint8Array }).data, images[index]?.[`${format}Pixels`] as Uint8Array),
      }),
    );
  const settings = { channels: 'bgr', layout: 'chw', scale: 1, mean: [0], std: [1] } as const;
  const pixels = await Promise.all((large ?? []).map(({ jpeg }) => decodeImage(jpeg)));
  const resized = (index: number) =>
    imageTensor(pixels[index] as (typeof pixels)[number], { ...settings, width: 96, height: 96 }, 'float32');
  const expected = pixels.map((_, index) => resized(index).data as Float32Array);
  return [
    ...decoding(small ?? [], '96x96'),
    ...decoding(large ?? [], '500x375'),
    {
      name: 'resize 500x375 pixels to a tensor of 3x96x96',
      work: resized,
      check: (made, index) =>
        sameNumbers((made as { data: Float32Array }).data, expected[index] as Float32Array),
    },
  ];
}
