/**
 * Decides which Host headers name this machine. A page of any domain can let its own name resolve to 127.0.0.1 and so
 * reach a local port as its own origin (DNS rebinding). Its requests carry that name, which is refused.
 */
import { isIPv4 } from 'node:net';

/** The name in a Host header or an origin, without the port, in lower case; undefined when it is malformed. */
export function hostName(header: string | undefined): string | undefined {
  const [, name] = /^(\[[0-9a-f:.]+\]|[^\s:/?#@[\]\\]+)(?::\d{1,5})?$/i.exec(header ?? '') ?? [];
  return name?.toLowerCase().replace(/^\[|\]$/g, '');
}

/**
 * True if only this machine answers to the name. RFC 6761 reserves `localhost` and names that end in `.localhost` for
 * it.
 */
export function isLoopback(name: string): boolean {
  if (isIPv4(name)) return name.startsWith('127.');
  return name === '::1' || name === 'localhost' || name.endsWith('.localhost');
}

/**
 * True if a request with this Host header is meant for this service.
 * @param address the local address of the connection, which is allowed too
 */
export function isOwnHost(
  header: string | undefined,
  allowed: readonly string[] = [],
  address?: string,
): boolean {
  const name = hostName(header);
  if (name === undefined) return false;
  return isLoopback(name) || allowed.includes(name) || name === address?.replace(/^::ffff:/, '');
}
