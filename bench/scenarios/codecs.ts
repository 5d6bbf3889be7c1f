/**
 * How long reading one record or image takes, beside a raw run of its model. A codec takes microseconds,
 * so a call here does it many times over, each time with another record, and what it returns is compared with what went in.
 */
import { decodeImage } from '../../lib/codecs/image/image.ts';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { decodeMessage, encodeMessage } from '../../lib/codecs/message.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { nestedTensor } from '../../lib/pipeline/nested.ts';
import type { Bench, Scenario } from '../bench.ts';
import { makeImage } from '../images.ts';
import { type Contender, interleave, type Measured, pairwise, quantile, spreadOf } from '../measure.ts';
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

/** One thing to do on record number `index`, and the numbers that must come out of it. */
interface Task {
  readonly name: string;
  readonly work: (index: number) => unknown;
  readonly numbersOf: (made: never) => ArrayLike<number> | undefined;
  readonly expected: readonly ArrayLike<number>[];
}

export const codecs: Scenario = {
  name: 'codecs',
  about: 'reading one record or image in each format',
  async run(bench) {
    const lines: Line[] = [];
    for (const name of ['mlp', 'convnet'] as const) {
      const model = await bench.model(name);
      const rows = randomRows(41, model.rowShape, RECORDS);
      const tasks = recordTasks(model, rows);
      if (name === 'convnet')
        tasks.push(...(await imageTasks(200, 96, 96)), ...(await imageTasks(300, 500, 375)));
      const wanted = tasks.filter((task) => bench.wants(task.name));
      if (wanted.length > 0) lines.push(...(await measureTasks(bench, model, rows, wanted)));
    }
    return lines;
  },
};

async function measureTasks(
  bench: Bench,
  model: BenchModel,
  rows: readonly Float32Array[],
  tasks: readonly Task[],
): Promise<Row[]> {
  const raw = await openRaw(model);
  try {
    const answers = await answersOf(raw, rows);
    const repeated: Awaited<ReturnType<typeof repeat>>[] = [];
    for (const task of tasks) repeated.push(await repeat(task));
    const all = [rawContender('raw', raw, rows, answers), ...repeated.map(({ contender }) => contender)];
    const plan = { repeats: bench.repeats, repeatMs: bench.ms(REPEAT_MS) };
    const [rawTimes, ...measured] = await interleave(all as Contender[], plan);
    const rawUs = mediansUs(rawTimes as Measured, 1);
    return measured.map((of, i): Row => {
      const ours = mediansUs(of, repeated[i]?.times as number);
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

/** Of one piece of work, by repeat. */
function mediansUs(measured: Measured, times: number): readonly number[] {
  return measured.repeats.map((sorted) => (quantile(sorted, 0.5) * 1000) / times);
}

/** The task, done so often in one call that the clock can measure it. */
async function repeat({ name, work, numbersOf, expected }: Task) {
  const check = (made: unknown, index: number) => {
    const [numbers, wanted] = [numbersOf(made as never), expected[index] as ArrayLike<number>];
    const isSame =
      numbers?.length === wanted.length && Array.from(wanted).every((value, i) => value === numbers[i]);
    if (!isSame) throw new Error(`${name}: a codec does not give back what went in`);
  };
  for (let index = 0; index < RECORDS; index++) check(await work(index), index);
  let tries = 0;
  const begin = performance.now();
  for (; performance.now() - begin < 50; tries++) await work(tries % RECORDS);
  const times = Math.max(1, Math.round((CALL_MS * tries) / (performance.now() - begin)));
  const sync = () => {
    let made: unknown;
    for (let i = 0; i < times; i++) made = work(i % RECORDS);
    return made;
  };
  const inTurns = async () => {
    let made: unknown;
    for (let i = 0; i < times; i++) made = await work(i % RECORDS);
    return made;
  };
  const contender = {
    name,
    call: work(0) instanceof Promise ? inTurns : sync,
    verify: (made: readonly unknown[]) => check(made.at(-1), (times - 1) % RECORDS),
  };
  return { contender, times };
}

function recordTasks(model: BenchModel, rows: readonly Float32Array[]): Task[] {
  const { input, rowShape } = model;
  const writers = { safetensors: encodeMessage, Arrow: arrowMessage };
  const messageTasks = Object.entries(writers).map(([format, write]): Task => {
    // Through JSON, so that the texts are flat in memory, as they are when they come from SQS.
    const written = rows.map((row) => write('record', inputsOf(model, row)));
    const texts = JSON.parse(JSON.stringify(written)) as string[];
    return {
      name: `read a message, ${format}, ${bytesText(texts[0]?.length ?? 0)} in base64`,
      work: (index) => decodeMessage(texts[index] as string),
      numbersOf: ({ inputs }: ReturnType<typeof decodeMessage>) => {
        if (inputs instanceof ServingError) throw inputs;
        const [value] = inputs.values();
        return value?.kind === 'tensor' ? (value.tensor.data as Float32Array) : undefined;
      },
      expected: rows,
    };
  });
  const bodies = rows.map((row) =>
    Buffer.from(JSON.stringify({ instances: [{ [input]: nestedNumbers(row, rowShape) }] })),
  );
  const readJson = (index: number) => {
    const value = decodeInstances(bodies[index] as Buffer)[0]?.get(input);
    return nestedTensor(value?.kind === 'json' ? value.value : undefined, 'float32').data as Float32Array;
  };
  const name = `read a JSON body, ${bytesText(bodies[0]?.length ?? 0)}`;
  return [...messageTasks, { name, work: readJson, numbersOf: (data: Float32Array) => data, expected: rows }];
}

async function imageTasks(seed: number, width: number, height: number): Promise<Task[]> {
  const drawn = Array.from({ length: RECORDS }, (_, i) => makeImage(seed + i, width, height));
  const images = await Promise.all(drawn);
  return (['png', 'jpeg'] as const).map((format) => ({
    name: `decode a ${format.toUpperCase()} of ${width}x${height}, ${bytesText(images[0]?.[format].length ?? 0)}`,
    work: (index) => decodeImage(images[index]?.[format] as Buffer),
    numbersOf: ({ data }: { readonly data: Uint8Array }) => data,
    expected: images.map((image) => image[`${format}Pixels`]),
  }));
}
