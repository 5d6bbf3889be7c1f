/**
 * Connection and server commands, enough for ioredis, redis-cli and a person. HELLO is answered in the protocol it
 * has just selected.
 */
import {
  type Command,
  type CommandTable,
  count,
  immediate,
  matches,
  reads,
  subcommands,
  unscripted,
} from '../command.ts';
import { type Bytes, OK, type Reply, ReplyError, wrongCount } from '../replies.ts';

export const SERVER_VERSION = '7.0.0';

function hello({ session }: Parameters<Command['run']>[0], [, version, ...options]: readonly Bytes[]): Reply {
  let protocol = session.protocol;
  if (version !== undefined) {
    const asked = count(version, 'ERR Protocol version is not an integer or out of range');
    if (asked !== 2 && asked !== 3) throw new ReplyError('NOPROTO unsupported protocol version');
    protocol = asked;
  }
  for (let at = 0; at < options.length; at += 1) {
    const option = options[at]?.toUpperCase();
    if (option === 'AUTH' && at + 2 < options.length) {
      authenticate(options[at + 1]);
      at += 2;
    } else if (option === 'SETNAME' && at + 1 < options.length) {
      session.name = clientName(options[at + 1]);
      at += 1;
    } else throw new ReplyError(`ERR Syntax error in HELLO option '${options[at]}'`);
  }
  session.protocol = protocol;
  const facts: Reply[] = ['server', 'redis', 'version', SERVER_VERSION, 'proto', protocol, 'id', session.id];
  return { fields: [...facts, 'mode', 'standalone', 'role', 'master', 'modules', []] };
}

/** There is no password: the default user may log in with any. */
function authenticate(user: Bytes | undefined): void {
  if (user !== 'default')
    throw new ReplyError('WRONGPASS invalid username-password pair or user is disabled.');
}

function clientName(name: Bytes = ''): Bytes {
  if (/^[!-~]*$/.test(name)) return name;
  throw new ReplyError('ERR Client names cannot contain spaces, newlines or special characters.');
}

const client: CommandTable = {
  id: reads(2, ({ session }) => session.id),
  getname: reads(2, ({ session }) => (session.name === '' ? null : session.name)),
  setname: reads(3, ({ session }, [, , name]) => {
    session.name = clientName(name);
    return OK;
  }),
  setinfo: reads(4, () => OK),
  /** No command blocks here, so no client waits. */
  unblock: reads(-3, (_context, [, , id, how = 'TIMEOUT', ...more]) => {
    if (more.length > 0) throw wrongCount('client|unblock');
    if (!/^(?:timeout|error)$/i.test(how)) {
      throw new ReplyError('ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR');
    }
    count(id);
    return 0;
  }),
  list: reads(-2, ({ engine }) => {
    const lines = [...engine.sessions].map(
      ({ id, address, name, channels, patterns, protocol }) =>
        `id=${id} addr=${address} name=${name} db=0 sub=${channels.size} psub=${patterns.size} resp=${protocol}\n`,
    );
    return { text: lines.join('') };
  }),
};

const CONFIG: Record<string, string> = {
  appendfsync: 'everysec',
  appendonly: 'yes',
  databases: '1',
  maxmemory: '0',
  'maxmemory-policy': 'noeviction',
  save: '',
};

const config: CommandTable = {
  get: reads(-3, (_context, [, , ...patterns]) => {
    const chosen = Object.entries(CONFIG).filter(([name]) =>
      patterns.some((pattern) => matches(pattern.toLowerCase(), name)),
    );
    return { fields: chosen.flat() };
  }),
};

export const SERVER_COMMANDS: CommandTable = {
  hello: unscripted(-1, hello),
  auth: unscripted(-2, (_context, args) => {
    if (args.length === 2) {
      throw new ReplyError(
        'ERR AUTH <password> called without any password configured for the default user. ' +
          'Are you sure your configuration is correct?',
      );
    }
    authenticate(args[1]);
    return OK;
  }),
  ping: reads(-1, ({ session }, args) => {
    if (args.length > 2) throw new ReplyError("ERR wrong number of arguments for 'ping' command");
    const listens = session.channels.size + session.patterns.size > 0;
    if (listens && session.protocol === 2) return ['pong', args[1] ?? ''];
    return args[1] ?? { status: 'PONG' };
  }),
  echo: reads(2, (_context, [, text = '']) => text),
  quit: immediate(-1, ({ session }) => {
    session.closing = true;
    return OK;
  }),
  select: reads(2, (_context, [, index]) => {
    if (count(index) !== 0) throw new ReplyError('ERR DB index is out of range');
    return OK;
  }),
  client: unscripted(-2, subcommands('client', client)),
  config: unscripted(-2, subcommands('config', config)),
  command: reads(-1, ({ engine }, [, word]) => {
    if (word?.toLowerCase() === 'count') return engine.commandCount;
    return word?.toLowerCase() === 'docs' ? { fields: [] } : [];
  }),
  info: reads(-1, ({ engine }, [, ...wanted]) => {
    const names = new Set(wanted.map((name) => name.toLowerCase()));
    const all = names.size === 0 || ['all', 'default', 'everything'].some((name) => names.has(name));
    const sections = Object.entries(engine.serverInfo()).filter(
      ([name]) => all || names.has(name.toLowerCase()),
    );
    const texts = sections.map(([name, facts]) => {
      const lines = Object.entries(facts).map(([fact, value]) => `${fact}:${value}\r\n`);
      return `# ${name}\r\n${lines.join('')}`;
    });
    return { text: texts.join('\r\n') };
  }),
  time: reads(1, ({ store }) => [
    String(Math.floor(store.nowMs / 1000)),
    String((store.nowMs % 1000) * 1000),
  ]),
};
