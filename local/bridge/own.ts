/** The bridge of a job of this service, from the stream of its name in the service's own Redis. */
import { accept } from '../../lib/compose/accept.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import { recordStates } from '../../lib/compose/states.ts';
import { sendAnnounced, submit } from '../../lib/pipeline/submit.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { listStreams } from '../../lib/redis/stream.ts';
import type { LocalLog } from '../aws/lambda.ts';
import { type Bridge, startBridge } from './bridge.ts';
import { countOf } from './record.ts';

/** @param log gets a warning when Redis or the queue does not answer */
export function bridgeOfJob(scope: Scope, log: LocalLog): Promise<Bridge> {
  const { redisUrl, job } = scope.environment;
  const { queue, payloads } = accept(scope);
  return startBridge({
    redisUrl,
    stream: job.jobName,
    // One service has the data folder of its Redis: a bridge that it left behind was killed.
    name: 'service',
    send: (record) =>
      sendAnnounced(scope.get(recordStates), [record], async (one) => submit(queue(), payloads, one)),
    warn: (message) => log.warn(message),
  });
}

/** Clients that write to another stream than that of a job get no results, and no error. */
export async function warnOfUnreadStreams(
  redisUrl: string,
  jobs: readonly { readonly job: string }[],
  log: LocalLog,
): Promise<void> {
  const connection = new RedisConnection(redisUrl);
  try {
    for (const [stream, entries] of await listStreams(connection)) {
      if (entries === 0 || jobs.some(({ job }) => job === stream)) continue;
      log.warn(
        `nobody reads the stream ${JSON.stringify(stream)} of Redis, which has ${countOf(entries)}: name a job after it, ` +
          `or run \`cluster-serving bridge --stream ${stream}\``,
      );
    }
  } finally {
    await connection.close();
  }
}
