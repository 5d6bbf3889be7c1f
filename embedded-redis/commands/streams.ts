/**
 * The part of streams that clients of Analytics Zoo Cluster Serving, and the bridge that reads their records, need. A
 * blocking read answers at once.
 */
import {
  type Command,
  type CommandTable,
  type Context,
  count,
  grows,
  inPairs,
  reads,
  shrinks,
  subcommands,
  unscripted,
} from '../command.ts';
import { type Bytes, ERRORS, OK, type Reply, ReplyError } from '../replies.ts';
import type { Store } from '../store.ts';
import { assertNewId, fullId, type Group, isAfter, Stream, type StreamEntry, startOf } from '../stream.ts';

const READ_MOST = 1_000;

const NO_COUNT = 'ERR COUNT must be > 0';
const NO_STREAM =
  'ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.';

/** @param inRead whether the error names the command, as that of XREADGROUP does */
function groupOf(store: Store, key: Bytes, name: Bytes, inRead = false): [Stream, Group] {
  const stream = store.stream(key);
  const group = stream?.groups.get(name);
  if (stream && group) return [stream, group];
  const where = inRead ? ' in XREADGROUP with GROUP option' : '';
  throw new ReplyError(`NOGROUP No such key '${key}' or consumer group '${name}'${where}`);
}

const replyOf = (entries: readonly StreamEntry[]): Reply[] => entries.map(([id, fields]) => [id, fields]);

/** The options before the id of an XADD: NOMKSTREAM, and MAXLEN with `=` or `~`, which trims exactly. */
function addOptions(args: readonly Bytes[]): { at: number; most: number; makes: boolean } {
  let [at, most, makes] = [2, Number.POSITIVE_INFINITY, true];
  for (; ; at += 1) {
    const word = args[at]?.toLowerCase();
    if (word === 'nomkstream') makes = false;
    else if (word === 'maxlen') {
      at += args[at + 1] === '~' || args[at + 1] === '=' ? 2 : 1;
      most = count(args[at]);
    } else return { at, most, makes };
  }
}

function add({ store }: Context, args: readonly Bytes[]): Reply {
  const key = args[1] ?? '';
  const { at, most, makes } = addOptions(args);
  const fields = inPairs(args, at + 1).flat();
  if (args[at] === undefined || fields.length === 0) throw new ReplyError(ERRORS.syntax);
  if (args[at] !== '*') assertNewId(args[at]);
  const stream = store.stream(key) ?? (makes ? new Stream() : undefined);
  if (!stream) return null;
  const id = stream.add(args[at], fields, store.nowMs);
  stream.trim(most);
  store.put(key, stream);
  const trims = most === Number.POSITIVE_INFINITY ? [] : ['MAXLEN', String(most)];
  store.effects = [['XADD', key, ...trims, id, ...fields]];
  return id;
}

function remove({ store }: Context, [, key = '', ...ids]: readonly Bytes[]): Reply {
  const stream = store.stream(key);
  const removed = stream ? ids.map(fullId).filter((id) => stream.entries.delete(id)).length : 0;
  if (stream && removed > 0) store.put(key, stream);
  return removed;
}

const GROUPS: CommandTable = {
  create: grows(-5, ({ store }, [, , key = '', name = '', from = '', makes]) => {
    const stream = store.stream(key) ?? (makes?.toLowerCase() === 'mkstream' ? new Stream() : undefined);
    if (!stream) throw new ReplyError(NO_STREAM);
    stream.createGroup(name, from);
    store.put(key, stream);
    store.effects = [['XGROUP', 'CREATE', key, name, stream.groups.get(name)?.firstId ?? '0', 'MKSTREAM']];
    return OK;
  }),
  delconsumer: shrinks(5, ({ store }, [, , key = '', name = '', consumer = '']) => {
    const stream = store.stream(key);
    if (!stream) throw new ReplyError(NO_STREAM);
    const group = stream.groups.get(name);
    if (!group) throw new ReplyError(`NOGROUP No such consumer group '${name}' for key name '${key}'`);
    const had = [...group.pending].filter(([, delivered]) => delivered.consumer === consumer);
    for (const [id] of had) group.pending.delete(id);
    group.consumers.delete(consumer);
    return had.length;
  }),
};

/** The word after an option, as COUNT 10; undefined without it. */
function optionOf(args: readonly Bytes[], name: string): Bytes | undefined {
  const at = args.findIndex((word) => word.toLowerCase() === name);
  return at === -1 ? undefined : args[at + 1];
}

/** XREADGROUP GROUP group consumer [COUNT n] [BLOCK ms] STREAMS key > */
const readGroup: Command['run'] = ({ store, session }, args) => {
  const [, , name = '', consumer = ''] = args;
  const streams = args.findIndex((word) => word.toLowerCase() === 'streams');
  const [key = '', from, ...more] = args.slice(streams + 1);
  if (args[1]?.toLowerCase() !== 'group' || streams < 4 || from !== '>' || more.length > 0)
    throw new ReplyError(ERRORS.syntax);
  const options = args.slice(4, streams);
  const [stream, group] = groupOf(store, key, name, true);
  const most = count(optionOf(options, 'count') ?? String(READ_MOST));
  const entries = stream.read(group, consumer, most, store.nowMs);
  if (entries.length === 0) return { missing: 'array' };
  const reply = [key, replyOf(entries)];
  return session.protocol === 3 ? { fields: reply } : [reply];
};

/** XAUTOCLAIM key group consumer idle start [COUNT n] [JUSTID] */
const autoClaim: Command['run'] = (
  { store },
  [, key = '', name = '', consumer = '', idle, start, ...options],
) => {
  const idleMs = Math.max(0, count(idle, 'ERR Invalid min-idle-time argument for XAUTOCLAIM'));
  const from = startOf(start);
  let [most, justIds] = [100, false];
  for (let at = 0; at < options.length; at += 1) {
    const word = options[at]?.toLowerCase();
    if (word === 'justid') justIds = true;
    else if (word === 'count' && at + 1 < options.length) most = count(options[++at], NO_COUNT);
    else throw new ReplyError(ERRORS.syntax);
    if (most < 1) throw new ReplyError(NO_COUNT);
  }
  const [stream, group] = groupOf(store, key, name);
  const { next, claimed, deleted } = stream.claim(group, { consumer, idleMs, from, most }, store.nowMs);
  return [next, justIds ? claimed.map(([id]) => id) : replyOf(claimed), deleted];
};

const INFO: CommandTable = {
  groups: reads(3, ({ store }, [, , key = '']) => {
    const stream = store.stream(key);
    if (!stream) throw new ReplyError('ERR no such key');
    return [...stream.groups].map(([name, { consumers, pending, lastId }]) => ({
      fields: [
        'name',
        name,
        'consumers',
        consumers.size,
        'pending',
        pending.size,
        'last-delivered-id',
        lastId,
      ],
    }));
  }),
  consumers: reads(4, ({ store }, [, , key = '', name = '']) => {
    const [, group] = groupOf(store, key, name);
    return [...group.consumers].map(([consumer, atMs]) => {
      const pending = [...group.pending.values()].filter((delivered) => delivered.consumer === consumer);
      return { fields: ['name', consumer, 'pending', pending.length, 'idle', store.nowMs - atMs] };
    });
  }),
};

export const STREAM_COMMANDS: CommandTable = {
  xadd: grows(-5, add),
  xdel: shrinks(-3, remove),
  xlen: reads(2, ({ store }, [, key = '']) => store.stream(key)?.entries.size ?? 0),
  xrange: reads(-4, ({ store }, [, key = '', from = '-', to = '+', ...options]) => {
    const most = count(optionOf(options, 'count') ?? String(Number.MAX_SAFE_INTEGER));
    for (const bound of [from, to]) if (!/^[-+]$/.test(bound)) fullId(bound);
    const found = [...(store.stream(key)?.entries ?? [])].filter(
      ([id]) => (from === '-' || !isAfter(from, id)) && (to === '+' || !isAfter(id, to)),
    );
    return replyOf(found.slice(0, most));
  }),
  xgroup: { arity: -2, write: 'grows', run: subcommands('xgroup', GROUPS) },
  xreadgroup: unscripted(-7, readGroup),
  xack: reads(-4, ({ store }, [, key = '', name = '', ...ids]) => {
    const group = store.stream(key)?.groups.get(name);
    return group ? ids.map(fullId).filter((id) => group.pending.delete(id)).length : 0;
  }),
  xautoclaim: unscripted(-6, autoClaim),
  xinfo: { arity: -2, run: subcommands('xinfo', INFO) },
};
