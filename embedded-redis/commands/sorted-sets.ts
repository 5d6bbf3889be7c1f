/**
 * Commands on sorted sets, by rank or by score. With REV the larger bound comes first, and ranks count from the
 * highest score.
 */
import { type CommandTable, type Context, count, float, grows, reads, shrinks } from '../command.ts';
import { type Bytes, ERRORS, type Reply, ReplyError } from '../replies.ts';
import { type ScoreBound, type ScoredMember, SortedSet } from '../sorted-set.ts';
import type { Store } from '../store.ts';

const EMPTY = new SortedSet();

function bound(text: Bytes = ''): ScoreBound {
  const exclusive = text.startsWith('(');
  return {
    score: float(exclusive ? text.slice(1) : text, 'ERR min or max is not a float'),
    exclusive,
  };
}

/** The bounds are parsed before the key is read, so that their errors come first, here and by rank. */
function byScore(store: Store, key: Bytes, min: Bytes | undefined, max: Bytes | undefined): ScoredMember[] {
  const [low, high] = [bound(min), bound(max)];
  const zset = store.sortedSet(key) ?? EMPTY;
  const { start, end } = zset.ranks(low, high);
  return zset.slice(start, Math.max(start, end));
}

/** The members between two ranks, both included; -1 is the last. */
function byRank(
  store: Store,
  key: Bytes,
  ranks: readonly (Bytes | undefined)[],
  reverse = false,
): ScoredMember[] {
  const [first = 0, last = 0] = ranks.map((rank) => count(rank));
  const zset = store.sortedSet(key) ?? EMPTY;
  const start = Math.max(0, first < 0 ? zset.size + first : first);
  const end = Math.max(0, (last < 0 ? zset.size + last : last) + 1);
  if (!reverse) return zset.slice(start, end);
  return zset.slice(Math.max(0, zset.size - end), Math.max(0, zset.size - start)).reverse();
}

interface Range {
  readonly byScore: boolean;
  readonly reverse: boolean;
  readonly withScores: boolean;
  readonly limit: { readonly offset: number; readonly count: number } | undefined;
}

function rangeOptions(options: readonly Bytes[], allowed: readonly string[]): Range {
  const flags = new Set<string>();
  let limit: Range['limit'];
  for (let at = 0; at < options.length; at += 1) {
    const option = options[at]?.toUpperCase() ?? '';
    if (option === 'LIMIT' && at + 2 < options.length) {
      limit = { offset: count(options[at + 1]), count: count(options[at + 2]) };
      at += 2;
    } else if (allowed.includes(option) && (option === 'WITHSCORES' || !flags.has(option))) flags.add(option);
    else throw new ReplyError(ERRORS.syntax);
  }
  return {
    byScore: flags.has('BYSCORE'),
    reverse: flags.has('REV'),
    withScores: flags.has('WITHSCORES'),
    limit,
  };
}

function range({ store }: Context, args: readonly Bytes[], options: Range): Reply {
  const [, key = '', first, second] = args;
  if (options.limit !== undefined && !options.byScore) {
    throw new ReplyError(
      'ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX',
    );
  }
  let members: ScoredMember[];
  if (!options.byScore) members = byRank(store, key, [first, second], options.reverse);
  else if (options.reverse) members = byScore(store, key, second, first).reverse();
  else members = byScore(store, key, first, second);
  const { limit } = options;
  if (limit !== undefined) {
    const end = limit.count < 0 ? members.length : limit.offset + limit.count;
    members = limit.offset < 0 ? [] : members.slice(limit.offset, end);
  }
  return options.withScores ? { pairs: members } : members.map(([member]) => member);
}

function add({ store }: Context, args: readonly Bytes[]): Reply {
  const key = args[1] ?? '';
  let at = 2;
  const flags = new Set<string>();
  for (; ['NX', 'XX', 'GT', 'LT', 'CH'].includes(args[at]?.toUpperCase() ?? ''); at += 1) {
    flags.add(args[at]?.toUpperCase() ?? '');
  }
  if (args.length === at || (args.length - at) % 2 !== 0) throw new ReplyError(ERRORS.syntax);
  if (flags.has('NX') && flags.has('XX')) {
    throw new ReplyError('ERR XX and NX options at the same time are not compatible');
  }
  if ((flags.has('GT') && flags.has('LT')) || (flags.has('NX') && (flags.has('GT') || flags.has('LT')))) {
    throw new ReplyError('ERR GT, LT, and/or NX options at the same time are not compatible');
  }
  const members: ScoredMember[] = [];
  for (; at < args.length; at += 2) members.push([args[at + 1] ?? '', float(args[at])]);
  const zset = store.sortedSet(key) ?? new SortedSet();
  let added = 0;
  let changed = 0;
  for (const [member, score] of members) {
    const present = zset.score(member);
    if (present === undefined ? flags.has('XX') : flags.has('NX') || present === score) continue;
    if (present !== undefined && flags.has('GT') && score < present) continue;
    if (present !== undefined && flags.has('LT') && score > present) continue;
    if (present === undefined) added += 1;
    else changed += 1;
    zset.set(member, score);
  }
  if (added + changed > 0) store.put(key, zset);
  return flags.has('CH') ? added + changed : added;
}

/** Removes members, and the key with the last one. */
function remove({ store }: Context, key: Bytes, members: readonly Bytes[]): number {
  const zset = store.sortedSet(key);
  if (zset === undefined) return 0;
  const removed = members.filter((member) => zset.delete(member)).length;
  if (removed > 0) store.put(key, zset);
  return removed;
}

function popLowest(context: Context, [, key = '', amount]: readonly Bytes[]): Reply {
  const wanted = amount === undefined ? 1 : count(amount, ERRORS.positive);
  if (wanted < 0) throw new ReplyError(ERRORS.positive);
  const members = context.store.sortedSet(key)?.slice(0, wanted) ?? [];
  remove(
    context,
    key,
    members.map(([member]) => member),
  );
  if (amount !== undefined) return { pairs: members };
  return members.flatMap(([member, double]): Reply[] => [member, { double }]);
}

const names = (members: readonly ScoredMember[]): Bytes[] => members.map(([member]) => member);

export const SORTED_SET_COMMANDS: CommandTable = {
  zadd: grows(-4, add),
  zrem: shrinks(-3, (context, [, key = '', ...members]) => remove(context, key, members)),
  zscore: reads(3, ({ store }, [, key = '', member = '']) => {
    const double = store.sortedSet(key)?.score(member);
    return double === undefined ? null : { double };
  }),
  zcard: reads(2, ({ store }, [, key = '']) => store.sortedSet(key)?.size ?? 0),
  zrank: reads(3, ({ store }, [, key = '', member = '']) => store.sortedSet(key)?.rank(member) ?? null),
  zcount: reads(4, ({ store }, [, key = '', min, max]) => byScore(store, key, min, max).length),
  zrange: reads(-4, (context, args) =>
    range(context, args, rangeOptions(args.slice(4), ['BYSCORE', 'REV', 'WITHSCORES'])),
  ),
  zrangebyscore: reads(-4, (context, args) =>
    range(context, args, { ...rangeOptions(args.slice(4), ['WITHSCORES']), byScore: true }),
  ),
  zremrangebyscore: shrinks(4, (context, [, key = '', min, max]) =>
    remove(context, key, names(byScore(context.store, key, min, max))),
  ),
  zremrangebyrank: shrinks(4, (context, [, key = '', start, stop]) =>
    remove(context, key, names(byRank(context.store, key, [start, stop]))),
  ),
  zpopmin: shrinks(-2, popLowest),
};
