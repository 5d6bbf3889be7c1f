/** How far a job is and what it cost, in words. */
import { PRICES } from '../../lib/contract/prices.ts';
import type { Progress, Summary } from '../../lib/jobs/request.ts';
import type { JobState } from '../../local/console/job-place.ts';

/** Calls of a part: two listings and a put of it, and a get of its rows and of it. */
const PUTS = 3;
const GETS = 2;
/** A part is a message: sent, received and deleted. */
const QUEUE_REQUESTS = 3;
/** Rows of a part, for an estimate. */
const PART_ROWS = 10_000;

/** Dollars of the functions, of S3 and of SQS. */
export function costOf({ ms, memoryMB, arch }: Summary, parts: number): number {
  const price = PRICES.perGBSecond[arch === 'arm64' ? 'arm64' : 'x86_64'];
  const time = (ms / 1000) * (memoryMB / 1024) * price;
  const { s3PutsPerMillion, s3GetsPerMillion, queueRequestsPerMillion, invocationsPerMillion } = PRICES;
  const requests =
    PUTS * s3PutsPerMillion +
    GETS * s3GetsPerMillion +
    QUEUE_REQUESTS * queueRequestsPerMillion +
    invocationsPerMillion;
  return time + (parts * requests) / 1e6;
}

/** The price of all rows of a dry run, by the time of the first. */
export function estimateOf(summary: Summary): number {
  const { total, first = [], ms } = summary;
  const whole = { ...summary, ms: first.length === 0 ? 0 : (ms / first.length) * total };
  return costOf(whole, Math.ceil(total / PART_ROWS));
}

export function dollars(amount: number): string {
  return `$${amount < 0.01 ? amount.toPrecision(2) : amount.toFixed(2)}`;
}

const count = (value: number) => value.toLocaleString('en');

export function summaryText(summary: Summary, isLocal: boolean): string {
  const { id, total, errors, ms, parts, results, first, files, memoryMB } = summary;
  const where = `${memoryMB} MB, prices of ${PRICES.asOf} in ${PRICES.region}`;
  if (first) {
    const lines = first.slice(0, 3).map((line) => `  ${JSON.stringify(line)}`);
    const cost = `about ${dollars(estimateOf(summary))} on AWS, by the time of the first ${first.length} rows (${where})`;
    return [
      `${count(total)} rows in ${count(files)} ${files === 1 ? 'file' : 'files'}; of the first ${first.length}, ${errors} are errors`,
      ...lines,
      cost,
    ].join('\n');
  }
  const seconds = (ms / 1000).toFixed(1);
  return [
    `job ${id} is done: ${count(total)} rows, ${count(errors)} of them errors, in ${seconds} s of functions`,
    `results  ${results}`,
    `         \`cluster-serving job results ${id}\` prints them`,
    `cost     ${isLocal ? 'none here; on AWS ' : ''}about ${dollars(costOf(summary, parts))} (${where})`,
  ].join('\n');
}

export function progressText({ rows, total, errors, files }: Progress): string {
  const far =
    total === undefined ? `${count(rows)} rows answered so far` : `${count(rows)} of ${count(total)} rows`;
  return `${far} in ${count(files)} ${files === 1 ? 'file' : 'files'}, ${count(errors)} errors`;
}

const STATES = {
  failed: 'has failed',
  cancelled: 'is cancelled',
  running: 'runs',
  waiting: 'is waiting',
} as const;

export function stateText(id: string, found: JobState, isLocal: boolean): string {
  if (found.state === 'done') return summaryText(found.summary, isLocal);
  const far = found.progress ? `: ${progressText(found.progress)}` : '';
  const why = found.state === 'failed' ? ['', ...found.examples, `error: ${found.error}`].join('\n') : '';
  return `job ${id} ${STATES[found.state]}${far}${why}`;
}
