/**
 * The predict function in a process of its own, with further models in S3: how long it takes to open one, the memory of those that are
 * open and of those that were, and how many requests a second it answers. Beside it onnxruntime alone with the same files.
 */
import { join } from 'node:path';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { predict } from '../../functions/predict.ts';
import { composePredict } from '../../lib/compose/predict.ts';
import { Scope } from '../../lib/compose/scope.ts';
import { readEnvironment } from '../../lib/config/environment.ts';
import { elementAt } from '../../lib/contract/present.ts';
import { type Contender, interleave, rateOf, spreadOf } from '../measure.ts';
import { openSession } from '../raw.ts';
import { CONTEXT, predictEvent } from '../served.ts';
import { serveParent } from './child.ts';

export interface NamedQuestion {
  /** A folder for each model, by its number; the job's own model is number 0. */
  readonly folders: readonly string[];
  /** As many as are open at the same time. */
  readonly open: number;
  readonly repeatMs: number;
}

const MB = 1024 * 1024;
const X = 3;
/** Memory of a process settles after some calls. */
const WARM_UPS = 20;

export const nameOf = (number: number): string => `model-${number}`;

/** The answer of model number n to x is x + n. */
const expectedOf = (number: number): number => X + number;

let opened: Promise<ReturnType<typeof predict>> | undefined;

async function ask(number: number): Promise<unknown> {
  const event = predictEvent(`{"instances":[{"x":[${X}]}]}`);
  const query = number === 0 ? { form: 'plain' } : { form: 'plain', model: nameOf(number) };
  opened ??= composePredict(new Scope(readEnvironment())).then(predict);
  const answer = await opened;
  return answer(
    { ...event, rawQueryString: String(new URLSearchParams(query)), queryStringParameters: query },
    CONTEXT,
  );
}

function assertAnswer(answer: unknown, number: number): void {
  const { statusCode, body = '' }: { statusCode?: number; body?: string } = Object(answer);
  const value = Number(/"y":\[\[([\d.]+)/.exec(body)?.[1]);
  if (statusCode !== 200 || value !== expectedOf(number))
    throw new Error(`model ${number}: ${statusCode} ${body}`);
}

async function askAll(from: number, to: number): Promise<void> {
  for (let number = from; number <= to; number++) assertAnswer(await ask(number), number);
}

const openRaw = (folder: string): Promise<InferenceSession> => openSession(join(folder, 'model.onnx'));

async function runRaw(session: InferenceSession, number: number): Promise<void> {
  const { y } = await session.run({ x: new Tensor('float32', Float32Array.of(X), [1, 1]) });
  if (y?.data[0] !== expectedOf(number)) throw new Error(`raw model ${number}: ${y?.data[0]}`);
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

/** Both open each model, one after the other and in turns. @returns medians in ms */
async function timeBoth({ folders }: NamedQuestion, from: number, to: number) {
  const [ours, raw]: [number[], number[]] = [[], []];
  for (let number = from; number <= to; number++) {
    const ask1 = async () => ours.push(await timed(async () => assertAnswer(await ask(number), number)));
    const raw1 = async () =>
      raw.push(
        await timed(async () => {
          const session = await openRaw(elementAt(folders, number, 'folders'));
          await runRaw(session, number);
          await session.release();
        }),
      );
    for (const one of number % 2 === 0 ? [ask1, raw1] : [raw1, ask1]) await one();
  }
  return { ours: spreadOf(ours).median, raw: spreadOf(raw).median };
}

function contender(name: string, numberOf: (index: number) => number): Contender {
  return {
    name,
    call: (index) => ask(numberOf(index)),
    verify: (answers) => answers.forEach((answer, index) => assertAnswer(answer, numberOf(index))),
  };
}

function rawContender(name: string, sessions: readonly InferenceSession[]): Contender {
  return {
    name,
    call: (index) =>
      runRaw(elementAt(sessions, index % sessions.length, 'sessions'), 1 + (index % sessions.length)),
    verify: () => undefined,
  };
}

/** @returns ms to the answer of a model that was closed, and requests a second */
async function times(question: NamedQuestion) {
  const { open, repeatMs } = question;
  for (let i = 0; i < WARM_UPS; i++) await askAll(0, 0);
  // It loads the code of further models.
  await askAll(question.folders.length - 1, question.folders.length - 1);
  const fromS3 = await timeBoth(question, 1, open);
  const evicting = await timeBoth(question, open + 1, 2 * open);
  const fromDisk = await timeBoth(question, 1, open);
  const sessions: InferenceSession[] = [];
  for (const folder of question.folders.slice(1, open + 1)) sessions.push(await openRaw(folder));
  const contenders = [
    contender('own', () => 0),
    contender('one', () => 1),
    contender('all', (index) => 1 + (index % open)),
    rawContender('raw, one', sessions.slice(0, 1)),
    rawContender('raw, all', sessions),
  ];
  await askAll(1, open);
  const measured = await interleave(contenders, { repeats: 1, repeatMs });
  const [own = 0, one = 0, all = 0, rawOne = 0, rawAll = 0] = measured.map(({ repeats: [latencies] }) =>
    latencies ? rateOf(latencies) : 0,
  );
  for (const session of sessions) await session.release();
  return { fromS3, evicting, fromDisk, rates: { own, one, all, rawOne, rawAll } };
}

function residentMB(): number {
  globalThis.gc?.();
  return process.memoryUsage.rss() / MB;
}

/** @returns MB of each model that is open, and of each that was closed */
async function memory({ folders, open }: NamedQuestion) {
  for (let i = 0; i < WARM_UPS; i++) await askAll(0, 0);
  const last = folders.length - 1;
  await askAll(last - WARM_UPS, last);
  const before = residentMB();
  await askAll(1, open - WARM_UPS - 1);
  const full = residentMB();
  const count = open - WARM_UPS - 1;
  // From here on each that opens closes another one.
  await askAll(open, 3 * open);
  const closed = residentMB();
  return { open: (full - before) / count, closed: (closed - full) / (2 * open + 1) };
}

/** @returns MB of each session */
async function rawMemory({ folders, open }: NamedQuestion) {
  const sessions: InferenceSession[] = [];
  const openOne = async (number: number) => {
    const session = await openRaw(elementAt(folders, number, 'folders'));
    await runRaw(session, number);
    sessions.push(session);
  };
  for (let i = 0; i < WARM_UPS; i++) await openOne(folders.length - 1 - i);
  const before = residentMB();
  for (let number = 1; number <= open; number++) await openOne(number);
  const each = (residentMB() - before) / open;
  for (const session of sessions) await session.release();
  return each;
}

const methods = { times, memory, rawMemory };

export type NamedProcess = typeof methods;

if (import.meta.main) serveParent(methods);
