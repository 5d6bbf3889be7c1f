/**
 * Commands that push to and pop from both ends of a list. Arguments are pushed one by one, so LPUSH a b leaves b
 * first.
 */
import { type Command, type CommandTable, count, grows, reads, shrinks } from '../command.ts';
import { type Bytes, ERRORS, OK, ReplyError } from '../replies.ts';

function push(end: 'left' | 'right'): Command {
  return grows(-3, ({ store }, [, key = '', ...items]) => {
    const list = store.list(key) ?? [];
    for (const item of items) {
      if (end === 'left') list.unshift(item);
      else list.push(item);
    }
    store.put(key, list);
    return list.length;
  });
}

function pop(end: 'left' | 'right'): Command {
  return shrinks(-2, ({ store }, args) => {
    const [, key = '', amount] = args;
    if (args.length > 3) throw new ReplyError(ERRORS.syntax);
    const wanted = amount === undefined ? 1 : count(amount, ERRORS.positive);
    if (wanted < 0) throw new ReplyError(ERRORS.positive);
    const list = store.list(key);
    if (list === undefined) return amount === undefined ? null : { missing: 'array' };
    const taken = Math.min(wanted, list.length);
    const popped = end === 'left' ? list.splice(0, taken) : list.splice(list.length - taken, taken).reverse();
    if (taken > 0) store.put(key, list);
    return amount === undefined ? (popped[0] ?? null) : popped;
  });
}

/** The part of a list from one index to another; a negative one counts from the end. */
function part(start: Bytes | undefined, stop: Bytes | undefined): (list: readonly Bytes[]) => Bytes[] {
  const [first, last] = [count(start), count(stop)];
  return (list) => {
    const from = Math.max(0, first < 0 ? list.length + first : first);
    return list.slice(from, Math.max(0, (last < 0 ? list.length + last : last) + 1));
  };
}

export const LIST_COMMANDS: CommandTable = {
  lpush: push('left'),
  rpush: push('right'),
  lpop: pop('left'),
  rpop: pop('right'),
  llen: reads(2, ({ store }, [, key = '']) => store.list(key)?.length ?? 0),
  lrange: reads(4, ({ store }, [, key = '', start, stop]) => part(start, stop)(store.list(key) ?? [])),
  ltrim: shrinks(4, ({ store }, [, key = '', start, stop]) => {
    const cut = part(start, stop);
    const list = store.list(key) ?? [];
    const kept = cut(list);
    if (kept.length < list.length) store.put(key, kept);
    return OK;
  }),
};
