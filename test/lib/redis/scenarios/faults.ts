/**
 * F6: injects faults of Redis into each operation. During a fault the only error is `results_unavailable` and the
 * queue keeps its messages; afterwards the same connection object works and nothing is lost, doubled or mixed. An
 * environment lives for hours, so a connection that never recovers would lose every record it gets from then on.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { Redis } from 'ioredis';
import { encodeMessage } from '../../../../lib/codecs/message.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { RedisConnection } from '../../../../lib/redis/connection.ts';
import { RecordStates } from '../../../../lib/redis/record-states.ts';
import { toInputs } from '../../../../sdk/inputs.ts';
import { sqsRecord } from '../../../support/faults/events.ts';
import { History } from '../../../support/faults/history.ts';
import { lineOf, record } from '../../../support/faults/model.ts';
import { quietLog } from '../../../support/faults/quiet.ts';
import {
  type CommandFate,
  OPENING,
  PASS,
  type RedisProxy,
  startRedisProxy,
} from '../../../support/faults/redis/proxy.ts';
import { JOB, lineRunner, openStore, openWorker } from '../../../support/faults/service.ts';

/** Short, for three faults use it up again and again; but what is well answers within it on a busy machine too. */
const TIMEOUTS = { connectTimeoutMs: 500, commandTimeoutMs: 500 };

export interface Fault {
  readonly name: string;
  readonly start: (proxy: RedisProxy) => void;
}

/** Says no to everything but what opens a connection, or to that too. */
const saysNo = (text: string): Fault => ({
  name: `Redis says ${text.split(' ')[0]}`,
  start: (proxy) => {
    proxy.onCommand = () => ({ kind: 'reply', text: `-${text}\r\n` });
  },
});

const commands = (name: string, fate: CommandFate): Fault => ({
  name,
  start: (proxy) => {
    proxy.onCommand = ({ name: command }) => (OPENING.has(command) ? PASS : fate);
  },
});

const connections = (name: string, word: 'reset' | 'silent'): Fault => ({
  name,
  start: (proxy) => {
    proxy.onConnect = () => word;
    proxy.resetAll();
  },
});

export const FAULTS: readonly Fault[] = [
  saysNo("READONLY You can't write against a read only replica."),
  saysNo('MOVED 3999 127.0.0.1:6381'),
  saysNo("OOM command not allowed when used memory > 'maxmemory'."),
  saysNo('LOADING Redis is loading the dataset in memory'),
  saysNo('NOAUTH Authentication required.'),
  saysNo('WRONGPASS invalid username-password pair or user is disabled.'),
  saysNo("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
  saysNo('CLUSTERDOWN The cluster is down'),
  saysNo('BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.'),
  saysNo('MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist on disk.'),
  saysNo('NOREPLICAS Not enough good replicas to write.'),
  saysNo('NOPERM this user has no permissions to run the command'),
  connections('connections are reset at once', 'reset'),
  connections('connections are taken and never answered', 'silent'),
  commands('the command is reset in its first byte', { kind: 'cut', bytes: 1 }),
  commands('the command is reset in its middle', { kind: 'cut', bytes: 40 }),
  commands('the answer is lost with the connection', { kind: 'cutReply', bytes: 0 }),
  commands('the answer is cut after its first byte', { kind: 'cutReply', bytes: 1 }),
  commands('the answer never comes', { kind: 'mute' }),
  commands('the command never arrives', { kind: 'hold' }),
  commands('the answer is no Redis protocol', { kind: 'reply', text: '?HTTP/1.1 400 Bad Request\r\n\r\n' }),
];

interface Place {
  readonly t: TestContext;
  /** Past the proxy. */
  readonly directUrl: string;
  readonly url: string;
}

/** Something to do before, during and after a fault, on one connection. */
export interface Operation {
  readonly name: string;
  /** Resolves to what to repeat, and how to see that all is well in the end. */
  readonly open: (place: Place) => Promise<{ act: () => Promise<void>; settle: () => Promise<void> }>;
}

const RECORDS = 10;

const writing: Operation = {
  name: 'a batch of ten',
  async open({ t, directUrl, url }) {
    const worker = await openWorker(t, { redisUrl: url, runner: await lineRunner(t), timeouts: TIMEOUTS });
    const history = new History();
    await history.listen(t, directUrl, JOB);
    let round = 0;
    const act = async () => {
      const first = round * RECORDS;
      const records = await Promise.all(
        Array.from({ length: RECORDS }, async (_, i) => {
          const uri = `r-${first + i}`;
          history.enqueued(uri, lineOf(first + i));
          return sqsRecord(uri, encodeMessage(uri, await toInputs(record(first + i))));
        }),
      );
      const { batchItemFailures } = await worker({ Records: records });
      if (batchItemFailures.length === 0) {
        round++;
        return;
      }
      // All or none: which of them Redis has cannot be known, and every one of them comes again.
      assert.equal(batchItemFailures.length, RECORDS);
      throw new ServingError('results_unavailable', 'the queue keeps the messages');
    };
    return { act, settle: () => history.assertClean(directUrl, JOB) };
  },
};

const reading: Operation = {
  name: 'a query',
  async open({ t, directUrl, url }) {
    const direct = openStore(t, { redisUrl: directUrl });
    const fields = { status: 'succeeded', value: '[[1,2.0]]', error: '', outputs: '', exact: '' } as const;
    await direct.save([{ uri: 'a', fields }], 'v');
    const store = openStore(t, { redisUrl: url, timeouts: TIMEOUTS });
    return {
      act: async () => assert.deepEqual((await store.get('a'))?.filtered, [[1, 2]]),
      settle: async () => assert.ok(await store.take('a')),
    };
  },
};

const announcing: Operation = {
  name: 'an announcement and a status',
  async open({ t, url }) {
    const connection = new RedisConnection(url, TIMEOUTS);
    t.after(() => connection.close());
    const states = new RecordStates(connection, { job: JOB, now: Date.now });
    return {
      act: async () => {
        await states.announce({ uri: 'a', identity: 'one', message: 'm' });
        assert.equal(await states.status('a'), 'queued');
      },
      settle: async () => assert.equal(await states.status('a', { identity: 'one' }), 'queued'),
    };
  },
};

const cancelling: Operation = {
  name: 'a cancellation',
  async open({ t, url }) {
    const connection = new RedisConnection(url, TIMEOUTS);
    t.after(() => connection.close());
    const states = new RecordStates(connection, { job: JOB, now: Date.now });
    return {
      act: async () => assert.equal(await states.cancel('a'), true),
      settle: async () => assert.equal(await states.status('a'), 'cancelled'),
    };
  },
};

export const OPERATIONS: readonly Operation[] = [writing, reading, announcing, cancelling];

/** @param directUrl of a Redis that may be emptied */
export async function redisFault(
  t: TestContext,
  directUrl: string,
  operation: Operation,
  fault: Fault,
): Promise<void> {
  quietLog(t);
  const direct = new Redis(directUrl);
  await direct.flushall();
  direct.disconnect();
  const proxy = await startRedisProxy(t, directUrl);
  const { act, settle } = await operation.open({ t, directUrl, url: proxy.url });
  // Warm, as an environment in use is: the fault meets a connection that stands.
  await act();
  const { onCommand, onConnect } = proxy;
  fault.start(proxy);
  for (let tries = 0; tries < 2; tries++) {
    await assert.rejects(act(), { name: 'ServingError', code: 'results_unavailable' });
  }
  proxy.onCommand = onCommand;
  proxy.onConnect = onConnect;
  await act();
  await settle();
}
