/** How long calls take: measured by `tune`, by a service that runs, at the import of the model, or as the user says. */
import { readFile } from 'node:fs/promises';
import { ServingError } from '../../lib/contract/errors.ts';
import type { TimerReport } from '../../lib/metrics/timers.ts';
import { wrongUse } from '../command.ts';
import type { TuneDocument } from '../tune/document.ts';

export interface Calls {
  /** A call of POST /predict with one record. */
  readonly predictMs: number;
  /** A call of the batch function with a full event. */
  readonly batchMs: number;
  /** Records of an event. */
  readonly records: number;
  readonly windowSeconds: number;
  readonly memoryMB: number;
  /** Where the times are from. */
  readonly from: string;
  readonly notes: readonly string[];
}

/** The settings of an event, which do not follow from the times. */
export type Events = Pick<Calls, 'records' | 'windowSeconds' | 'memoryMB'>;

/** An event of Lambda is at most so large; each message has attributes of its own. */
const EVENT_BYTES = 6 * 1024 * 1024;
const ATTRIBUTE_BYTES = 1_000;
/** SQS gathers more than this only in a window. */
const WITHOUT_WINDOW = 10;
const MOST_FILE_BYTES = 64 * 1024 * 1024;

/** As many records as fit into an event, with the window that they need. */
export function eventsOf(events: Events, recordBytes: number): Events {
  const fitting = Math.max(1, Math.floor(EVENT_BYTES / (recordBytes + ATTRIBUTE_BYTES)));
  const records = Math.min(events.records, fitting);
  return {
    ...events,
    records,
    windowSeconds: Math.max(events.windowSeconds, records > WITHOUT_WINDOW ? 1 : 0),
  };
}

export function callsOfRow(rowMs: number, overheadMs: number, events: Events, from: string): Calls {
  const batchMs = overheadMs + events.records * rowMs;
  return { ...events, predictMs: overheadMs + rowMs, batchMs, from, notes: [] };
}

/** Those of the cheapest setting that `tune --json` recommends. @throws bad_config for another file */
export async function callsOfTune(path: string, events: Events, recordBytes: number): Promise<Calls> {
  const bytes = await readFile(path).catch((cause: Error) => {
    throw new ServingError('bad_config', `--tune: ${path} cannot be read: ${cause.message}`, { cause });
  });
  const [found] = recommendationsOf(path, bytes);
  const { predict, batch, setting } = found ?? {};
  const records = batch?.records;
  const isWhole = eventsOf({ ...events, records: records ?? 1 }, recordBytes);
  if (!isTime(predict?.ms) || !isTime(batch?.ms) || !isTime(records) || !isTime(setting?.memoryMB))
    throw wrongUse(
      `--tune: ${path} recommends nothing for both ways; expected what \`cluster-serving tune --json\` printed, without --for`,
    );
  // Fewer fit into an event than were measured: the time is that of as many, in proportion.
  const batchMs = (batch.ms * isWhole.records) / records;
  const from = `${path}, measured by tune`;
  return { ...isWhole, predictMs: predict.ms, batchMs, memoryMB: setting.memoryMB, from, notes: [] };
}

function recommendationsOf(path: string, bytes: Buffer): Partial<TuneDocument['recommendations'][number]>[] {
  if (bytes.length > MOST_FILE_BYTES)
    throw wrongUse(`--tune: ${path} has over ${MOST_FILE_BYTES.toLocaleString('en-US')} bytes`);
  try {
    const { recommendations }: { recommendations?: unknown } = Object(JSON.parse(bytes.toString('utf8')));
    return Array.isArray(recommendations) ? recommendations.map(Object) : [];
  } catch (cause) {
    const message = `--tune: ${path} is not JSON; expected what \`cluster-serving tune --json\` printed`;
    throw new ServingError('bad_config', message, { cause });
  }
}

function isTime(value: number | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0;
}

/** From the timers of a service that runs. @throws not_found when it has answered nothing */
export function callsOfTimers(
  timers: readonly TimerReport[],
  overheadMs: number,
  events: Events,
  where: string,
): Calls {
  const timerOf = (name: TimerReport['name']) =>
    timers.find((timer) => timer.name === name && timer.count > 0 && isTime(timer.mean));
  const run = timerOf('zoo.serving.request.predict');
  const request = timerOf('zoo.serving.request.overall');
  if (!run)
    throw new ServingError(
      'not_found',
      `${where} has run nothing yet; send some requests, or give --ms or --tune`,
    );
  const calls = callsOfRow(run.mean, overheadMs, events, `${where}, as it runs`);
  const runs = `${run.count.toLocaleString('en-US')} runs, ${run.mean.toFixed(2)} ms on average`;
  const rows = `a run may have had several rows, so the times of an event are at most those`;
  const notes = [`${runs}; ${rows}`];
  return request ? { ...calls, predictMs: overheadMs + request.mean, notes } : { ...calls, notes };
}
