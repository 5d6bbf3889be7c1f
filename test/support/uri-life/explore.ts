/**
 * Visits every distinct state of a uri that a number of steps reaches: breadth first, each one built in the store once. Two
 * states are the same when the model and the store hold the same, and times count only by their order.
 */
import assert from 'node:assert/strict';
import { Redis } from 'ioredis';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import type { TableConnection } from '../../../lib/table/connection.ts';
import {
  type Action,
  actionsOf,
  isLater,
  type Outcome,
  type Place,
  START,
  step,
  type UriState,
} from './model.ts';
import { RedisWorld } from './redis-world.ts';
import { TableWorld } from './table-world.ts';
import { type Dump, EMPTY, type UriWorld } from './world.ts';

/** Jobs that work on one connection at once. */
const WORLDS = 48;
/** All fields of the state of a uri, and its idempotency record, after any history. */
const MOST_STATE_BYTES = 700;
const MOST_RECORD_BYTES = 96;

interface Node {
  readonly model: UriState;
  readonly dump: Dump;
  readonly path: readonly Action[];
}

export interface Explored {
  /** Distinct states, by the number of steps that reach them first. */
  readonly states: readonly number[];
  readonly steps: number;
}

/**
 * @param worlds that work at once
 * @param heard how many notifications there were; undefined for a store without
 */
export async function explore(
  worlds: readonly UriWorld[],
  depth: number,
  heard?: () => Promise<number>,
): Promise<Explored> {
  let expected = 0;
  let steps = 0;
  const seen = new Set<string>();
  let level: Node[] = [{ model: START, dump: EMPTY, path: [] }];
  const states = [1];
  for (let distance = 1; distance <= depth; distance++) {
    const tasks = level.flatMap((node) => actionsOf(node.model).map((action) => ({ node, action })));
    const next: Node[] = [];
    let at = 0;
    await Promise.all(
      worlds.map(async (world) => {
        for (let task = tasks[at++]; task; task = tasks[at++]) {
          const { reached, notified } = await transition(world, task.node, task.action);
          expected += notified;
          steps++;
          const key = JSON.stringify([reached.model, reached.dump]);
          if (seen.has(key)) continue;
          seen.add(key);
          await assertSeen(world, reached);
          next.push(reached);
        }
      }),
    );
    states.push(next.length);
    level = next;
  }
  if (heard) assert.equal(await heard(), expected, 'notifications');
  return { states, steps };
}

/** In Redis, whose notifications are counted. */
export async function exploreRedis(redisUrl: string, depth: number): Promise<Explored> {
  const connection = new RedisConnection(redisUrl, { commandTimeoutMs: 30_000 });
  const listener = new Redis(redisUrl);
  let heard = 0;
  const ended = Promise.withResolvers<void>();
  listener.on('pmessage', (_pattern: string, channel: string) => {
    if (channel === 'the end') ended.resolve();
    else heard++;
  });
  await listener.psubscribe('*');
  const worlds = Array.from({ length: WORLDS }, (_, i) => new RedisWorld(connection, `job${i}`));
  try {
    return await explore(worlds, depth, async () => {
      await connection.use((redis) => redis.publish('the end', ''), false);
      await ended.promise;
      return heard;
    });
  } finally {
    listener.disconnect();
    await connection.close();
  }
}

/** In a table. */
export async function exploreTable(connection: TableConnection, depth: number): Promise<Explored> {
  const worlds = Array.from({ length: WORLDS }, (_, i) => new TableWorld(connection, `job${i}`));
  return explore(worlds, depth);
}

/** One step in the store and in the model, which must agree on its answer and on what is visible afterwards. */
async function transition(world: UriWorld, node: Node, action: Action) {
  const path = [...node.path, action];
  const { state, answer, notified } = step(node.model, action);
  try {
    await world.restore(node.dump);
    assert.deepEqual(await world.act(action, node.model), answer, 'answer');
    const dump = await world.dump();
    assertStored(state, dump, node.model);
    const reached = ranked({ model: state, dump, path });
    return { reached, notified };
  } catch (error) {
    throw new Error(
      `${(error as Error).message}\nafter ${path.map((one) => JSON.stringify(one)).join('\n      ')}`,
      {
        cause: error,
      },
    );
  }
}

/** Requirements on the keys, and changes that no step may make. */
function assertStored(
  model: UriState,
  { result, state, newest, held, listed }: Dump,
  before: UriState,
): void {
  const { visible } = model;
  assert.equal(result['status'], visible?.kind, 'status of the result');
  if (visible) {
    assert.equal(
      result['identity'] ?? '',
      visible.kind === 'cancelled' ? '' : visible.identity,
      'identity of the result',
    );
    assert.equal(listed || visible.kind === 'cancelled', true, 'a result is listed for dequeue');
  }
  const identities = model.newest && [model.newest.identity, ...model.settled];
  assert.deepEqual(newest.split(' ')[1]?.split(','), identities, 'identities of the idempotency record');
  assert.equal(held['identity'], model.leased?.identity, 'what is leased');
  assert.ok(newest.length <= MOST_RECORD_BYTES, `${newest.length} bytes of the idempotency record`);
  const bytes = Object.entries(state).flat().join('').length;
  assert.ok(bytes <= MOST_STATE_BYTES, `${bytes} bytes of state`);
  // No older result is visible after a newer outcome, and nothing is given to a second client.
  if (visible) assert.ok(!isLater(model.newest as Place, visible), 'the visible result is the newest');
  // A cancellation has another clock than the queue; an announcement after it is later, even if that clock disagrees.
  const { identity = '' } = model.newest ?? {};
  const isAfterCancellation = before.newest?.identity === '~' && before.announced.includes(identity);
  if (before.newest && model.newest && !isAfterCancellation)
    assert.ok(!isLater(before.newest, model.newest), 'the order never goes back');
  assert.equal(new Set(model.given).size, model.given.length, 'each result is given once');
}

/** The clients' view of a new state. */
async function assertSeen(world: UriWorld, { model, path }: Node): Promise<void> {
  const identities = [...new Set(model.messages.map(({ identity }) => identity))];
  const looked = (await world.look(identities)) as { status: string; found: unknown }[];
  const [whole, ...each] = looked;
  const { visible, announced, cancelled } = model;
  const way = path.map((one) => JSON.stringify(one)).join('\n      ');
  const gone: readonly string[] = ['unknown', 'expired'];
  const statusOf: readonly string[] = announced.length > 0 ? ['queued'] : visible ? [visible.kind] : gone;
  assert.deepEqual(whole?.found, foundOf(visible), way);
  assert.ok(
    statusOf.includes(whole?.status ?? ''),
    `${whole?.status}, expected ${statusOf.join()} after ${way}`,
  );
  for (const [i, identity] of identities.entries()) {
    const isOwn =
      visible?.kind === 'cancelled' ? cancelled.includes(identity) : visible?.identity === identity;
    assert.deepEqual(each[i]?.found, isOwn ? foundOf(visible) : undefined, `${identity} after ${way}`);
    const own: readonly (string | undefined)[] = isOwn
      ? [visible?.kind]
      : announced.includes(identity)
        ? ['queued']
        : gone;
    assert.ok(
      own.includes(each[i]?.status),
      `${identity}: ${each[i]?.status}, expected ${own.join()} after ${way}`,
    );
  }
}

function foundOf(visible: Outcome | undefined): unknown {
  if (!visible) return undefined;
  return { identity: visible.kind === 'cancelled' ? '' : visible.identity, kind: visible.kind };
}

/** The same state with small times: only their order matters, and a cancellation has the time of Redis. */
function ranked({ model, dump, path }: Node): Node {
  const places = [
    model.newest,
    model.visible,
    model.after,
    model.leased,
    ...model.messages,
    ...model.archived,
  ];
  const times = [...new Set(places.flatMap((place) => (place ? [place.sentAt] : [])))].sort((a, b) => a - b);
  const rankOf = (time: number) => times.indexOf(time) + 1;
  const again = <P extends Place>(place: P): P => ({ ...place, sentAt: rankOf(place.sentAt) });
  const maybe = <P extends Place>(place: P | undefined) => (place ? again(place) : undefined);
  const { newest, settled, after } = model;
  const text = (place: Place | undefined, sentAt = rankOf(place?.sentAt ?? 0)) => {
    if (!place) return '';
    const identities = [place.identity, ...(place === newest ? settled : [])].join(',');
    return `${sentAt} ${identities}${place.replays > 0 ? ` ${place.replays}` : ''}`;
  };
  // Redis' own times are those of the model, but for a cancellation's.
  if (newest && newest.identity !== '~')
    assert.equal(dump.newest, text(newest, newest.sentAt), 'idempotency record');
  return {
    path,
    model: {
      ...model,
      messages: model.messages.map(again),
      newest: maybe(newest),
      visible: maybe(model.visible),
      after: maybe(after),
      leased: maybe(model.leased),
      archived: model.archived.map(again),
      given: model.given.toSorted(),
    },
    dump: {
      ...dump,
      result: timeless(dump.result, after ? { after: text(after) } : {}),
      held: timeless(dump.held, {}),
      newest: text(newest),
    },
  };
}

/** The time to live that a lease notes, and what a cancellation says came before. */
function timeless(fields: Readonly<Record<string, string>>, instead: Record<string, string>) {
  const left = 'left' in fields ? { left: '60000' } : {};
  return { ...fields, ...left, ...instead };
}
