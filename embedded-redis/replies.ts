/**
 * Encodes replies as RESP2 or RESP3. Every string here is a byte string (latin1, one character per byte): it is
 * binary safe, works as a Map key and sorts as in Redis. Sockets and files must use it as 'latin1', never 'utf8'.
 */

/** A string whose characters are bytes, 0 to 255. */
export type Bytes = string;

/**
 * A plain string is a bulk string, null a missing one; the others are types that RESP2 and RESP3 encode differently.
 */
export type Reply =
  | Bytes
  | number
  | bigint
  | null
  | readonly Reply[]
  | { readonly status: string }
  | { readonly error: string }
  | { readonly double: number }
  /** Alternating keys and values. */
  | { readonly fields: readonly Reply[] }
  | { readonly set: readonly Reply[] }
  /** Members with scores: nested in RESP3, flat in RESP2. */
  | { readonly pairs: readonly (readonly [Bytes, number])[] }
  | { readonly event: readonly Reply[] }
  /** Text for people (INFO). */
  | { readonly text: Bytes }
  /** A missing array, which RESP2 encodes differently from a missing string. */
  | { readonly missing: 'array' }
  /** Several replies to one command (SUBSCRIBE a b). */
  | { readonly several: readonly Reply[] };

export type Protocol = 2 | 3;

export const OK: Reply = { status: 'OK' };

/** The error of a command. The client gets the message unchanged, starting with the code. */
export class ReplyError extends Error {}

/** Errors of several commands, in the words of Redis. */
export const ERRORS = {
  syntax: 'ERR syntax error',
  type: 'WRONGTYPE Operation against a key holding the wrong kind of value',
  integer: 'ERR value is not an integer or out of range',
  float: 'ERR value is not a valid float',
  overflow: 'ERR increment or decrement would overflow',
  positive: 'ERR value is out of range, must be positive',
} as const;

export function wrongCount(command: string): ReplyError {
  return new ReplyError(`ERR wrong number of arguments for '${command}' command`);
}

/** The shortest form that parses to the same number, with infinities as inf and -inf. */
export function doubleText(value: number): string {
  if (value === Infinity) return 'inf';
  if (value === -Infinity) return '-inf';
  if (Object.is(value, -0)) return '-0';
  return Math.abs(value) >= 1e17 ? value.toExponential() : String(value);
}

function array(mark: string, items: readonly Reply[], protocol: Protocol, count = items.length): string {
  let text = `${mark}${count}\r\n`;
  for (const item of items) text += encodeReply(item, protocol);
  return text;
}

export function encodeReply(reply: Reply, protocol: Protocol): Bytes {
  if (typeof reply === 'string') return `$${reply.length}\r\n${reply}\r\n`;
  if (typeof reply === 'number' || typeof reply === 'bigint') return `:${reply}\r\n`;
  if (reply === null) return protocol === 3 ? '_\r\n' : '$-1\r\n';
  if ('status' in reply) return `+${reply.status}\r\n`;
  if ('error' in reply) return `-${reply.error.replaceAll(/[\r\n]/g, ' ')}\r\n`;
  if ('double' in reply) {
    const text = doubleText(reply.double);
    return protocol === 3 ? `,${text}\r\n` : `$${text.length}\r\n${text}\r\n`;
  }
  if ('fields' in reply) {
    return protocol === 3
      ? array('%', reply.fields, protocol, reply.fields.length / 2)
      : array('*', reply.fields, protocol);
  }
  if ('set' in reply) return array(protocol === 3 ? '~' : '*', reply.set, protocol);
  if ('event' in reply) return array(protocol === 3 ? '>' : '*', reply.event, protocol);
  if ('pairs' in reply) {
    const pairs = reply.pairs.map(([member, double]): Reply[] => [member, { double }]);
    return array('*', protocol === 3 ? pairs : pairs.flat(), protocol);
  }
  if ('text' in reply) {
    return protocol === 3
      ? `=${reply.text.length + 4}\r\ntxt:${reply.text}\r\n`
      : `$${reply.text.length}\r\n${reply.text}\r\n`;
  }
  if ('missing' in reply) return protocol === 3 ? '_\r\n' : '*-1\r\n';
  if ('several' in reply) return reply.several.map((one) => encodeReply(one, protocol)).join('');
  return array('*', reply, protocol);
}

/** A command as a client sends it and as the log keeps it. */
export function encodeCommand(args: readonly Bytes[]): Bytes {
  let text = `*${args.length}\r\n`;
  for (const arg of args) text += `$${arg.length}\r\n${arg}\r\n`;
  return text;
}
