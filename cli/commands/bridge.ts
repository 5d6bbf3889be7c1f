/**
 * `cluster-serving bridge`: moves the records that clients of the original Cluster Serving write into a Redis stream to
 * the queue of a service. It runs until it is stopped. Of several, one works and the others stand by.
 */
import { DEFAULT_JOB_NAME } from '../../lib/contract/names.ts';
import { startBridge } from '../../local/bridge/bridge.ts';
import type { Moved } from '../../local/bridge/options.ts';
import { countOf } from '../../local/bridge/record.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT } from '../output.ts';
import { showProgress } from '../progress.ts';
import { openQueue, QUEUE_OPTIONS } from '../queue.ts';
import { assertUrls, findService, JOB, notRunning, SERVICE_OPTIONS } from '../service.ts';

export const command = defineCommand({
  name: 'bridge',
  usage: ['--redis <url> [options]'],
  about: `Moves the records of a Redis stream into the queue, so that clients of Analytics Zoo Cluster Serving and BigDL
work unchanged. A record leaves the stream when the queue has it; those of one uri are sent in their order. One
without a readable uri or data goes to the list <stream>:dead. A service of this machine does the same for its own
Redis by itself.`,
  options: {
    redis: { value: 'url', about: 'Redis of the stream, redis://host:port or rediss://...' },
    stream: { value: 'name', about: `stream to read (default: the name of the job; ${DEFAULT_JOB_NAME})` },
    once: { about: 'end when the stream is empty' },
    'claim-seconds': {
      range: [1, 86_400],
      value: 's',
      default: 15,
      about: 'take over from a bridge that has been silent for so long',
    },
    ...SERVICE_OPTIONS,
    ...QUEUE_OPTIONS,
    job: JOB,
  },
  examples: ['bridge --redis redis://10.0.0.7:6379 --stack cluster-serving-prod'],
  async run({ redis, stream, once, 'claim-seconds': claimSeconds, ...values }, output) {
    if (redis === undefined)
      throw wrongUse('bridge needs --redis, the url of the Redis that clients write to');
    assertUrls({ 'redis-url': redis });
    const service = await findService(values);
    if (!service) return notRunning(values, output, '--queue-url or --stack');
    const queue = openQueue(service);
    const name = stream ?? service.job;
    const progress = showProgress(output.json);
    try {
      return await interruptible('the bridge', output, async (signal) => {
        const bridge = await startBridge({
          redisUrl: redis,
          stream: name,
          send: (record) => queue.enqueueMessage(record),
          warn: (message) => output.note(message),
          onMoved: (moved) => progress.update({ label: textOf(moved, name) }),
          claimAfterMs: claimSeconds * 1000,
          once: once === true,
        });
        if (!once) output.note(`reading the stream ${name} of ${new URL(redis).host}; Ctrl-C ends it`);
        signal.addEventListener('abort', () => void bridge.close());
        const moved = await bridge.ended;
        progress.end();
        output.answer({ stream: name, ...moved }, textOf(moved, name));
        return moved.dead > 0 && once ? EXIT.failed : EXIT.ok;
      });
    } finally {
      progress.end();
      await queue.close();
    }
  },
});

function textOf({ enqueued, dead }: Moved, stream: string): string {
  return `${countOf(enqueued)} of ${stream} enqueued${dead === 0 ? '' : `, ${dead} unreadable in ${stream}:dead`}`;
}
