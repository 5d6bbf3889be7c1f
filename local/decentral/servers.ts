/**
 * Reads a list of servers from a command line: `[["10.0.0.1", 8068, 8069], ...]`. A shell takes the quotes of JSON away
 * where the list is unquoted, so addresses need none.
 */
import { badConfig } from '../../lib/contract/errors.ts';

/** The address of a server, its port, and the port that clients of earlier versions read results from. */
export type RemoteServer = readonly [ip: string, port: number, portOut: number];

export const MAX_SERVERS = 100;
export const MAX_CLIENTS = 1_000;
const MAX_TEXT = 64 * 1024;
const MAX_PORT = 65_535;

const SERVER = /\[\s*(["']?)([\w.:-]{1,253})\1\s*,\s*(\d{1,5})\s*,\s*(\d{1,5})\s*\]/y;
const COMMA = /\s*,\s*/y;

/** @throws bad_config */
export function readServers(text: string): readonly RemoteServer[] {
  const list = text.trim();
  const refuse = (problem: string) =>
    badConfig(`-remote_servers: ${problem}; expected [[ip, port, port_out], ...], got ${shown(text)}`);
  if (text.length > MAX_TEXT) throw refuse(`${text.length} characters are over the limit of ${MAX_TEXT}`);
  if (!list.startsWith('[') || !list.endsWith(']')) throw refuse('no list');
  const inner = list.slice(1, -1).trim();
  const servers: RemoteServer[] = [];
  for (let at = 0; at < inner.length; ) {
    const comma = servers.length === 0 ? '' : matchAt(COMMA, inner, at)?.[0];
    const found = comma === undefined ? null : matchAt(SERVER, inner, at + comma.length);
    if (comma === undefined || !found) throw refuse(`server ${servers.length + 1} is malformed`);
    const [all, , ip = '', port, portOut] = found;
    for (const each of [port, portOut]) {
      if (Number(each) < 1 || Number(each) > MAX_PORT)
        throw refuse(`${each} is not a port from 1 to ${MAX_PORT}`);
    }
    servers.push([ip, Number(port), Number(portOut)]);
    at += comma.length + all.length;
  }
  if (servers.length === 0 || servers.length > MAX_SERVERS) {
    throw refuse(`${servers.length} servers, of 1 to ${MAX_SERVERS}`);
  }
  return servers;
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function shown(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}
