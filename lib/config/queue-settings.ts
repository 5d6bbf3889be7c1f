/** The settings of the queue of records, of that of jobs over files, and of what all may cost. */
import { or, type Reader, setting, texts, whole } from './readers.ts';
import { numberOf } from './value.ts';

/** 14 days, the maximum of SQS. */
const MAX_RETENTION_SECONDS = 1_209_600;

const part: Reader<number> = {
  expected: '0, or a number between 0 and 1',
  read: (value) => {
    const read = numberOf(value);
    return read !== undefined && read >= 0 && read < 1 ? read : undefined;
  },
};

export const QUEUE = {
  batchSize: setting(
    or(whole(1, 10_000), 10),
    'Records of one call of the batch function. Above 10 needs `windowSeconds`.',
  ),
  windowSeconds: setting(or(whole(0, 300), 0), 'How long SQS gathers the records of a call.'),
  maximumConcurrency: setting(
    or(whole(2, 1_000), 10),
    'Batch functions at the same time; `cluster-serving start` runs two, which share the model.',
  ),
  maxReceiveCount: setting(
    or(whole(1, 1_000), 5),
    'Runs of a record without an outcome, from its second delivery on, before it becomes a dead letter.',
    { above: 'The record fails with `max_receives_exceeded`.' },
  ),
  retentionSeconds: setting(
    or(whole(60, MAX_RETENTION_SECONDS), 345_600),
    'How long the queue of a deployment keeps a record that no function has taken; then SQS deletes it.',
  ),
  recordTtlSeconds: setting(
    or(whole(0, MAX_RETENTION_SECONDS), 0),
    'A record that is older when the batch function gets it is not run, and fails with `record_expired`. 0: none is.',
  ),
  highShare: setting(
    or(part, 0),
    'The part of `maximumConcurrency` that [`priority: high`](http.md#when-a-record-runs) has for itself, such as 0.7; the rest is that of the other records. 0: there is one queue, and no priority.',
  ),
};

/** Lambda's event source takes no 1. */
const share: Reader<number> = {
  expected: '0, or a whole number from 2 to 1000',
  read: (value) => {
    const read = numberOf(value);
    return read === 0 || whole(2, 1_000).read(value) !== undefined ? read : undefined;
  },
};

export const JOBS = {
  maximumConcurrency: setting(
    or(share, 0),
    'Functions that work on [jobs over files](../how-to/jobs-over-files.md) at the same time, beside those of records. 0: a deployment takes no such jobs.',
  ),
  buckets: setting(
    or(
      texts('names of buckets', (name) => /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name)),
      [],
    ),
    "Buckets that the jobs of a deployment may read and write, besides the job's own: `[my-data]`.",
  ),
};

const MOST_DOLLARS = 1e9;
const dollars: Reader<number> = {
  expected: `0, or dollars up to ${MOST_DOLLARS}`,
  read: (value) => {
    const read = numberOf(value);
    return read !== undefined && read >= 0 && read <= MOST_DOLLARS ? read : undefined;
  },
};
const REFUSED =
  'Answered with `rate_limited` until the day or the month of UTC is over; the queue goes on at its slowest.';

export const BUDGET = {
  perDay: setting(
    or(dollars, 0),
    'Dollars that requests and records may cost in a day of UTC ([what is counted](../how-to/limit-what-it-costs.md)). 0: no limit.',
    { above: REFUSED },
  ),
  perMonth: setting(
    or(dollars, 0),
    'The same for a month. A deployment also makes a budget of AWS, which warns. 0: no limit.',
    { above: REFUSED },
  ),
};
