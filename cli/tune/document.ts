/** The JSON document of `tune`. Scripts rely on it: docs/how-to/tune.md lists its keys, and a test compares them. */
import { availableParallelism } from 'node:os';
import type { JobConfig } from '../../lib/config/job.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { PRICES } from '../../lib/contract/prices.ts';
import { verificationNotes } from '../../lib/contract/verification-text.ts';
import { machineFacts } from '../../onnx-import/index.ts';
import { bytesText } from '../dlq/text.ts';
import { type SettingResult, settingResults } from './cost.ts';
import type { Measurement } from './measure.ts';
import type { TuneModel } from './model.ts';
import type { TuneOptions } from './options.ts';
import type { MeasuredPoint } from './points.ts';
import { type Recommendation, recommend, type Wishes } from './recommend.ts';

export type TuneDocument = ReturnType<typeof documentOf>;

export function documentOf(model: TuneModel, measurement: Measurement, job: JobConfig, options: TuneOptions) {
  const { facts, points, skipped, batchLimit, rounds, tookMs, load } = measurement;
  const { memories, overheadMs, arch, latencyMs } = options;
  const cores = availableParallelism();
  const { timeoutSeconds } = job.function;
  const { results, excluded } = settingResults(points, facts, {
    memories,
    cores,
    overheadMs,
    timeoutSeconds,
  });
  // If requests are too large for POST /predict, only the queue was measured.
  const endpoints = new Set(points.map(({ endpoint }) => endpoint));
  const [only = 'batch'] = endpoints;
  const wishes: Wishes = {
    arch,
    traffic: options.traffic === 'both' && endpoints.size === 1 ? only : options.traffic,
    limitMs: latencyMs,
    job,
    hasFreeBatch: facts.shared && facts.fixedRows === null,
  };
  const aims = ['cheapest', 'latency'] as const;
  const recommendations = aims.flatMap((aim) => recommend(aim, results, wishes) ?? []);
  const { cpu } = machineFacts(cores);
  return {
    model: { path: model.name, bytes: model.bytes, ...facts },
    machine: { cpu, cores, node: process.versions.node, arch: process.arch, load },
    method: {
      seconds: options.limitMs / 1000,
      tookMs,
      rounds,
      maxBatch: options.maxBatch,
      batchLimit: batchLimit ?? null,
      overheadMs,
      traffic: options.traffic,
      latencyMs: latencyMs ?? null,
      architecture: arch,
    },
    prices: PRICES,
    points,
    skipped,
    settings: results,
    excluded,
    recommendations,
    verification: model.verification,
    notes: [
      ...verificationNotes(model.verification, job.batching),
      ...notesOf(model, measurement, wishes, options, recommendations, results),
    ],
  };
}

/** If single-threaded calls waited for the processor more than this share, all times are too long. */
const BUSY_SHARE = 0.1;
const TMP_BYTES = 512 * 1024 * 1024;
const LARGE_REQUEST_BYTES = 100_000;

function notesOf(
  model: TuneModel,
  { facts, points, skipped }: Measurement,
  { traffic, limitMs }: Wishes,
  options: TuneOptions,
  recommendations: readonly Recommendation[],
  results: readonly SettingResult[],
): string[] {
  const { shared, data, requestBytes, messageBytes } = facts;
  const rows = facts.fixedRows ?? 0;
  const waited = waitedShare(points);
  const other = traffic === 'batch' ? 'predict' : 'batch';
  const notes = [
    waited > BUSY_SHARE &&
      `the machine was busy with other things: calls waited ${Math.round(waited * 100)} % of their time for the processor, so times are too long, and p99 more so`,
    limitMs !== undefined &&
      recommendations.every(({ aim }) => aim !== 'latency') &&
      `no setting that was measured has a p99 of at most ${limitMs} ms`,
    recommendations.length === 0 &&
      (results.some(({ setting }) => setting.basis === 'fewer cores')
        ? 'nothing is recommended: every setting that holds the model has more cores than this machine; run tune on one with more, or select others with --memory'
        : 'the model exceeds its time limit at every memory setting; --memory selects others'),
    options.traffic !== traffic && `${other} could not be measured, so the settings are for ${traffic} alone`,
    !shared &&
      'batchSize has no effect where records run one by one, and larger events only save invocations',
    shared &&
      rows > 0 &&
      `the file fixes a run to ${rowsText(rows)}: batchSize has no effect${rows > 1 ? ', and a request of one record is padded' : ''}`,
    data === 'zeros' && 'the model rejects random numbers, so it ran on zeros; --data gives it real inputs',
    data !== 'given' &&
      requestBytes > LARGE_REQUEST_BYTES &&
      `a request is ${bytesText(requestBytes)} of numbers; if clients send images, measure with --data picture.jpg`,
    messageBytes > LIMITS.messageBytes &&
      'a record is too large for a message and is sent through S3: the times exclude that, the costs include its requests',
    model.bytes > TMP_BYTES && `the model is ${bytesText(model.bytes)}, and /tmp of a function holds 512 MiB`,
    skipped.length > 0 &&
      points.every(({ endpoint, records }) => endpoint === 'predict' || records === 1) &&
      'only single records were measured: --seconds gives more time',
  ];
  return notes.filter((note) => note !== false);
}

export function rowsText(rows: number): string {
  return rows === 1 ? 'one row' : `${rows} rows`;
}

/** The share of single-threaded calls that was not processor time, at the median of the points. */
function waitedShare(points: readonly MeasuredPoint[]): number {
  const shares = points
    .filter(({ threads }) => threads === 1)
    .map(({ cpuMs, meanMs }) => 1 - cpuMs / meanMs)
    .toSorted((a, b) => a - b);
  return Math.max(0, shares[shares.length >> 1] ?? 0);
}
