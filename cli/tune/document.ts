/**
 * In: all that was found out. Out: the JSON document, and what should be said beside the tables.
 * Trap: scripts rely on the document: docs/tune.md lists its keys, and a test compares.
 */
import { PRICES } from '../../infra/prices.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { bytesText } from '../dlq/text.ts';
import type { SettingResult } from './cost.ts';
import type { Measurement } from './measure.ts';
import type { TuneModel } from './model.ts';
import type { TuneOptions } from './options.ts';
import type { MeasuredPoint } from './points.ts';
import type { Recommendation, Traffic, Wishes } from './recommend.ts';
import { type Report, rowsText } from './report.ts';

export interface Examined {
  readonly report: Report;
  readonly results: readonly SettingResult[];
}

export function documentOf({ report, results }: Examined, options: TuneOptions) {
  const { measurement, machine, name, modelBytes, excluded, recommendations, notes } = report;
  const { facts, points, skipped, batchLimit, rounds, tookMs, load } = measurement;
  return {
    model: { path: name, bytes: modelBytes, ...facts },
    machine: { ...machine, node: process.versions.node, arch: process.arch, load },
    method: {
      seconds: options.limitMs / 1000,
      tookMs,
      rounds,
      maxBatch: options.maxBatch,
      batchLimit: batchLimit ?? null,
      overheadMs: options.overheadMs,
      traffic: options.traffic,
      latencyMs: options.latencyMs ?? null,
      architecture: options.arch,
    },
    prices: PRICES,
    points,
    skipped,
    settings: results,
    excluded,
    recommendations,
    notes,
  };
}

interface Noted {
  readonly model: TuneModel;
  readonly points: readonly MeasuredPoint[];
  readonly measurement: Measurement;
  readonly wishes: Wishes;
  readonly wanted: Traffic;
  readonly recommendations: readonly Recommendation[];
}

/** Of a call of one thread, that it waited for the processor: every time is then too long. */
const BUSY_SHARE = 0.1;
const TMP_BYTES = 512 * 1024 * 1024;
const LARGE_REQUEST_BYTES = 100_000;

export function notesOf({ model, points, measurement, wishes, wanted, recommendations }: Noted): string[] {
  const { facts, skipped } = measurement;
  const waited = waitedShare(points);
  const notes: string[] = [];
  const note = (applies: boolean, text: string) => {
    if (applies) notes.push(text);
  };
  note(
    waited > BUSY_SHARE,
    `the machine was busy with other things: calls waited ${Math.round(waited * 100)} % of their time for the processor, so times are too long, and p99 more so`,
  );
  note(
    recommendations.every(({ aim }) => aim !== 'latency') && wishes.limitMs !== undefined,
    `no setting that was measured has a p99 of at most ${wishes.limitMs} ms`,
  );
  note(
    recommendations.length === 0,
    'no memory setting holds the model within its time limit; --memory names others',
  );
  note(
    wanted !== wishes.traffic,
    `${wishes.traffic === 'batch' ? 'predict' : 'batch'} could not be measured, so the settings are for ${wishes.traffic} alone`,
  );
  note(
    !facts.shared,
    'records run one by one, as the outputs do not follow the batch: batchSize changes nothing, larger events only save invocations',
  );
  note(
    facts.fixedRows !== null && facts.shared,
    `the file fixes a run to ${rowsText(facts.fixedRows ?? 1)}: batchSize changes nothing${(facts.fixedRows ?? 1) > 1 ? ', and a request of one record is filled up to them' : ''}`,
  );
  note(
    facts.data === 'zeros',
    'the model takes no random numbers, so it ran on zeros; --data gives it real inputs',
  );
  note(
    facts.data !== 'given' && facts.requestBytes > LARGE_REQUEST_BYTES,
    `a request is ${bytesText(facts.requestBytes)} of numbers; where clients send pictures, --data picture.jpg measures that`,
  );
  note(
    facts.messageBytes > LIMITS.messageBytes,
    'a record is too large for a message and travels through S3: what that takes is not in the times, its requests are in the costs',
  );
  note(
    model.bytes > TMP_BYTES,
    `the model is ${bytesText(model.bytes)}, and /tmp of a function holds 512 MiB`,
  );
  note(
    skipped.length > 0 && points.every(({ door, records }) => door === 'predict' || records === 1),
    'only single records were measured: --seconds gives more time',
  );
  return notes;
}

/** How much of a call of one thread was not processor time, at the median of the points. */
function waitedShare(points: readonly MeasuredPoint[]): number {
  const shares = points
    .filter(({ threads }) => threads === 1)
    .map(({ cpuMs, meanMs }) => 1 - cpuMs / meanMs)
    .toSorted((a, b) => a - b);
  return Math.max(0, shares[shares.length >> 1] ?? 0);
}
