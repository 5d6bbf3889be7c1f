/** The jobs whose data is stored, with the text of each config.yaml. An upgrade does not change configs. */

export const JOBS = {
  /** y = 2x + 1 of a [3,2,2] tensor or image; version 2 is 3x + 1. */
  line: 'jobName: line\nqueue:\n  maxReceiveCount: 3\n',
  /** An output of each of several dtypes. */
  kinds: 'jobName: kinds\n',
  /** Two outputs with a filter, and a rate limit of one request per second. */
  top: 'jobName: top\npostProcessing: topN(2)\nhttp:\n  tokenBucketEnabled: true\n  tokensPerSecond: 1\n',
  /** Returns its strings; the model was copied into the bucket by hand, without a pointer. */
  text: 'jobName: text\n',
} as const;

export type Job = keyof typeof JOBS;

export const JOB_NAMES = Object.keys(JOBS) as Job[];

/** Deliveries of the job `line`. */
export const MOST_DELIVERIES = 3;

export const queueNameOf = (job: string) => `cluster-serving-${job}`;
export const resultKeyOf = (job: string, uri: string) => `cluster-serving_${job}:${uri}`;
export const indexKeyOf = (job: string) => `cluster-serving-index_${job}`;
