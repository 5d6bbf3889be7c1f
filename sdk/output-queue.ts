/** Reads results from Redis or through the HTTPS API. What the calls do is in http/output-queue.ts. */
import { DEFAULT_JOB_NAME } from '../lib/contract/names.ts';
import { assertKeyspace } from '../lib/queue/names.ts';
import { type AccessOptions, authorizedFetch } from './access.ts';
import { ResultReader } from './http/output-queue.ts';
import type { ResultSource } from './http/source.ts';
import { HttpResults } from './http-results.ts';
import { retrying } from './retries.ts';

export interface OutputQueueOptions extends AccessOptions {
  /** The job's name, or `job@stage` in a shared Redis. Not needed over HTTPS. Default serving_stream. */
  readonly name?: string;
  /** redis://host:port or rediss://..., or the HTTPS API's url. Default redis://localhost:6379. */
  readonly url?: string;
  /**
   * The AWS endpoint, for large results to which Redis points; they are read with AWS credentials of the usual chain.
   * Default: the AWS SDK's own (AWS_ENDPOINT_URL).
   */
  readonly endpoint?: string;
}

export class OutputQueue extends ResultReader {
  /** @throws bad_config */
  constructor(options: OutputQueueOptions = {}) {
    const { name = DEFAULT_JOB_NAME, url = 'redis://localhost:6379' } = options;
    const job = assertKeyspace(name);
    let source: ResultSource | Promise<ResultSource> | undefined;
    if (/^https?:/.test(url)) source = new HttpResults(url, retrying(authorizedFetch(url, options)));
    // The clients of Redis and of S3 are loaded with the first call.
    super(
      () => (source ??= import('./redis-results.ts').then((redis) => redis.openResults(url, job, options))),
    );
  }
}
