/** Asks a model what was captured, and compares the answers. Runs in a process that can be killed. */
import { isDeepStrictEqual } from 'node:util';
import type { CapturedLine, CapturedRecord } from '../../lib/codecs/capture/read.ts';
import { modelSettings } from '../../lib/compose/model.ts';
import { type OnnxRunner, openOnnx, RUNTIME } from '../../lib/compose/onnx.ts';
import { answerSettings, type JobConfig } from '../../lib/config/job.ts';
import type { CaptureForm, CaptureHeader } from '../../lib/contract/capture.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { JobModel } from '../../lib/contract/names.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Outcome } from '../../lib/contract/values.ts';
import type { Side } from '../diff/run.ts';
import { compareRecord, Spreads } from './compare.ts';
import { entriesOf } from './file.ts';
import { type Asked, Journal } from './journal.ts';
import { type Item, type PackedRun, PackedRuns } from './packed-runs.ts';
import { type Replay, Tally } from './tally.ts';

export interface ReplayRun extends Side {
  /** The version whose model it is; undefined for a folder. */
  readonly version: string | undefined;
  /** The settings under which it would serve. */
  readonly job: JobConfig;
  /** The model whose captures they are. */
  readonly captured: JobModel;
  /** A copy of captures (file.ts). */
  readonly captures: string;
  /** The input by whose values differences are counted. */
  readonly by: string | undefined;
  /** A file with the progress (progress.ts), which goes on. Undefined: none is kept. */
  readonly progress?: string | undefined;
}

interface About {
  readonly header: CaptureHeader;
  readonly line: CapturedLine;
  readonly record: CapturedRecord;
}

/** @throws model_unavailable when the model does not open */
export async function runReplay(run: ReplayRun): Promise<Replay> {
  const { spreads, threads } = await readFirst(run);
  const settings = modelSettings(run.job, threads);
  const { file, verification } = run;
  const runner = await openOnnx(file, 'replay', { ...settings, verification, hasSteadyRuns: true });
  const runtime = { ...RUNTIME, threads: settings.threads };
  const journal = run.progress === undefined ? undefined : await Journal.open(run.progress, runtime);
  try {
    const { job, captured, captures, by, version } = run;
    const tally = new Tally({ version, runtime, settings: answerSettings(job), by });
    const packed = new PackedRuns<About>();
    for await (const entry of entriesOf(captures, captured)) {
      if ('unread' in entry) tally.addUnread(entry.unread);
      else await replayLine(entry, { runner, packed, tally, spreads, journal });
    }
    for (const rest of packed.rest()) await replayRun(rest, { runner, tally, spreads, journal });
    return tally.sum();
  } finally {
    await journal?.close();
    await runner.close();
  }
}

/** Reads how far single values spread, and with how many threads most captures were answered. */
async function readFirst({ captures, captured }: ReplayRun) {
  const spreads = new Spreads();
  const counts = new Map<number, number>();
  for await (const entry of entriesOf(captures, captured)) {
    if ('unread' in entry) continue;
    const { threads } = entry.header.runtime;
    counts.set(threads, (counts.get(threads) ?? 0) + 1);
    for (const { outputs = [] } of entry.line.records) spreads.add(outputs);
  }
  const [[threads] = [1]] = [...counts].sort(([, a], [, b]) => b - a);
  return { spreads, threads: threads >= 1 && threads <= 64 ? threads : 1 };
}

interface Replaying {
  readonly runner: OnnxRunner;
  readonly packed: PackedRuns<About>;
  readonly tally: Tally;
  readonly spreads: Spreads;
  readonly journal: Journal | undefined;
}

async function replayLine(
  { header, line, place: where }: Pick<About, 'header' | 'line'> & { readonly place: string },
  { packed, ...parts }: Replaying,
): Promise<void> {
  const { tally, runner, journal } = parts;
  tally.addHeader(header, line, where);
  const left = line.records.flatMap((record) => record.left);
  if (left.length > 0) return tally.addLeft(line.records.length, left);
  if (line.error !== undefined) {
    const [failed] = await through(journal, 1, async () => {
      const records = line.records.map(({ inputs }) => inputs);
      const failure = (await ask(runner, records, line.form)).find((outcome) => !outcome.ok);
      return [{ code: failure?.ok === false ? failure.error.code : undefined }];
    });
    return tally.addFailure(line, failed?.code);
  }
  for (const record of line.records) {
    const { inputs, place } = record;
    const ready = packed.add({ inputs, place, form: line.form, about: { header, line, record } });
    if (ready) await replayRun(ready, parts);
  }
}

async function replayRun(
  run: PackedRun<About>,
  { journal, tally, ...parts }: Omit<Replaying, 'packed'>,
): Promise<void> {
  const asked = await through(journal, run.items.length, () => compareRun(run, parts));
  for (const [i, [, { about }]] of run.items.entries()) {
    const { code, compared, isSamePlace = false } = elementAt(asked, i, 'asked');
    if (compared) tally.addCompared({ ...about, compared, isSamePlace });
    else tally.addFailure(about.line, code);
  }
}

async function compareRun(
  { form, records, items }: PackedRun<About>,
  { runner, spreads }: Pick<Replaying, 'runner' | 'spreads'>,
): Promise<Asked[]> {
  const outcomes = await ask(runner, records, form);
  return items.map(([index, { about, place }]) => {
    const outcome = elementAt(outcomes, index, 'outcomes');
    if (!outcome.ok) return { code: outcome.error.code };
    const compared = compareRecord(about.record.outputs ?? [], outcome.outputs, spreads);
    const isSamePlace = isDeepStrictEqual(outcome.place, place) && runner.inputs[0]?.isText !== true;
    return { compared, isSamePlace };
  });
}

/** @returns what a journal knows already, or what `find` finds */
function through(journal: Journal | undefined, records: number, find: () => Promise<readonly Asked[]>) {
  return journal ? journal.through(records, find) : find();
}

async function ask(
  runner: OnnxRunner,
  records: readonly Item<About>['inputs'][],
  form: CaptureForm | undefined,
): Promise<Outcome[]> {
  try {
    return await runner.run(records, { exactSignature: form === 'exact', isRow: form === 'row' });
  } catch (error) {
    const failed: Outcome = { ok: false, error: ServingError.from(error) };
    return records.map(() => failed);
  }
}
