/**
 * Commands for channels, transactions and scripts. UNSUBSCRIBE without a channel answers once per channel, or once
 * with null if there was none.
 */
import {
  type Command,
  type CommandTable,
  type Context,
  count,
  immediate,
  reads,
  subcommands,
  unscripted,
} from '../command.ts';
import { type Bytes, ERRORS, OK, type Reply, ReplyError } from '../replies.ts';

/** How many channels and patterns one connection may subscribe to. */
const SUBSCRIPTIONS = 10_000;

function subscribe(kind: 'channels' | 'patterns', word: string): Command {
  return unscripted(-2, ({ session }, [, ...names]) => {
    if (session[kind].size + names.length > SUBSCRIPTIONS) {
      throw new ReplyError(`ERR a connection listens to at most ${SUBSCRIPTIONS} ${kind}`);
    }
    const several = names.map((name): Reply => {
      session[kind].add(name);
      return { event: [word, name, session.channels.size + session.patterns.size] };
    });
    return { several };
  });
}

function unsubscribe(kind: 'channels' | 'patterns', word: string): Command {
  return unscripted(-1, ({ session }, [, ...asked]) => {
    const names: (Bytes | null)[] = asked.length > 0 ? asked : [...session[kind]];
    if (names.length === 0) names.push(null);
    const several = names.map((name): Reply => {
      if (name !== null) session[kind].delete(name);
      return { event: [word, name, session.channels.size + session.patterns.size] };
    });
    return { several };
  });
}

/** Ends a transaction and its watch. */
function endTransaction({ store, session }: Context): Bytes[][] {
  const queue = session.queue ?? [];
  session.queue = undefined;
  session.queueFailed = false;
  store.unwatch(session.watch);
  session.watch = { keys: new Set(), broken: false };
  return queue;
}

function exec(context: Context): Reply {
  const { store, session, engine } = context;
  if (session.queue === undefined) throw new ReplyError('ERR EXEC without MULTI');
  for (const key of session.watch.keys) store.get(key); // an expired key counts as changed
  const { queueFailed } = session;
  const { broken } = session.watch;
  const queue = endTransaction(context);
  if (queueFailed) throw new ReplyError('EXECABORT Transaction discarded because of previous errors.');
  if (broken) return { missing: 'array' };
  return engine.atomically(() => queue.map((args) => engine.execute(session, args)));
}

function evaluate(bySha: boolean): Command {
  return unscripted(-3, ({ session, engine }, [, script = '', keyCount, ...rest]) => {
    const keys = count(keyCount);
    if (keys < 0) throw new ReplyError("ERR Number of keys can't be negative");
    if (keys > rest.length) throw new ReplyError("ERR Number of keys can't be greater than number of args");
    return engine.atomically(() =>
      engine.scripts.evaluate(
        session,
        bySha ? { sha: script } : script,
        rest.slice(0, keys),
        rest.slice(keys),
      ),
    );
  });
}

const script: CommandTable = {
  load: reads(3, ({ engine }, [, , source = '']) => engine.scripts.load(source)),
  exists: reads(-3, ({ engine }, [, , ...shas]) => shas.map((sha) => (engine.scripts.has(sha) ? 1 : 0))),
  flush: reads(-2, ({ engine }, args) => {
    if (args.length > 3 || (args.length === 3 && !/^a?sync$/i.test(args[2] ?? '')))
      throw new ReplyError(ERRORS.syntax);
    engine.scripts.flush();
    return OK;
  }),
};

export const SESSION_COMMANDS: CommandTable = {
  publish: reads(3, ({ engine }, [, channel = '', message = '']) => engine.publish(channel, message)),
  subscribe: subscribe('channels', 'subscribe'),
  psubscribe: subscribe('patterns', 'psubscribe'),
  unsubscribe: unsubscribe('channels', 'unsubscribe'),
  punsubscribe: unsubscribe('patterns', 'punsubscribe'),
  multi: immediate(1, ({ session }) => {
    if (session.queue !== undefined) throw new ReplyError('ERR MULTI calls can not be nested');
    session.queue = [];
    return OK;
  }),
  exec: immediate(1, exec),
  discard: immediate(1, (context) => {
    if (context.session.queue === undefined) throw new ReplyError('ERR DISCARD without MULTI');
    endTransaction(context);
    return OK;
  }),
  watch: immediate(-2, ({ store, session }, [, ...keys]) => {
    if (session.queue !== undefined) throw new ReplyError('ERR WATCH inside MULTI is not allowed');
    for (const key of keys) {
      store.get(key);
      store.watch(key, session.watch);
    }
    return OK;
  }),
  unwatch: unscripted(1, ({ store, session }) => {
    store.unwatch(session.watch);
    session.watch = { keys: new Set(), broken: false };
    return OK;
  }),
  eval: evaluate(false),
  evalsha: evaluate(true),
  script: unscripted(-2, subcommands('script', script)),
};
