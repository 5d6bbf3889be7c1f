/**
 * Reads who may call the HTTP API from the options of a start. By default that is this machine; for others there must be
 * a token, or the word that none is wanted. SQS, S3 and Redis never leave this machine.
 */
import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { asError, badConfig } from '../../lib/contract/errors.ts';
import type { Security } from '../../lib/openapi/facts.ts';
import { isToken } from '../../sdk/fetch.ts';
import { hostName, isLoopback } from './hosts.ts';
import { newToken } from './token.ts';

export interface Access {
  /** The address that the HTTP API listens on. */
  readonly host: string;
  /** Names by which clients may call, besides those of this machine; lower case, without a port. */
  readonly allowedHosts: readonly string[];
  /** The token that every request must carry; undefined when none is needed. */
  readonly token: string | undefined;
}

export interface AccessValues {
  readonly host?: string | undefined;
  readonly 'token-file'?: string | undefined;
  readonly 'no-token'?: boolean | undefined;
  readonly 'make-token'?: boolean | undefined;
  readonly 'allow-host'?: readonly string[] | undefined;
}

/** Each says another thing about the token of a service, so a start has one of them at most. */
export const TOKEN_OPTIONS = ['token-file', 'make-token', 'no-token'] as const;

/** @throws bad_config */
export function readAccess(values: AccessValues): Access {
  const { host: said = '127.0.0.1', 'token-file': file } = values;
  const host = said === 'localhost' ? '127.0.0.1' : said;
  if (isIP(host) === 0) {
    throw badConfig(`--host: expected an address of this machine or localhost, got ${JSON.stringify(said)}`);
  }
  const [way, another] = TOKEN_OPTIONS.filter((option) => values[option]);
  if (another !== undefined) throw badConfig(`--${way} and --${another} exclude each other; give one`);
  if (!isLoopback(host) && way === undefined) {
    throw badConfig(
      `--host ${host} lets other machines call; pass --token-file <file>, whose token they must send, --make-token, which makes one, or --no-token`,
    );
  }
  const allowedHosts = [values['allow-host'] ?? []].flat().map(hostOf);
  // With --make-token `serve` reads it from its data folder, which is not there yet. Until then the token is random and unknown.
  const made = way === 'make-token' ? newToken() : undefined;
  return { host, allowedHosts, token: file === undefined ? made : readToken(file) };
}

export function securityOf({ token }: Pick<Access, 'token'>): Security {
  return token === undefined ? 'none' : 'token';
}

/**
 * @param longest in characters; by default what this service takes
 * @throws bad_config, which never shows what the file holds
 */
export function readToken(file: string, longest = 512, option = '--token-file'): string {
  const path = resolve(file);
  const refuse = (why: string) => badConfig(`${option} ${path}: ${why}`);
  let text: string;
  try {
    // Windows has no such modes.
    const isOpen = process.platform !== 'win32' && (statSync(path).mode & 0o077) !== 0;
    if (isOpen) throw refuse(`other users may use it; run: chmod 600 ${path}`);
    text = readFileSync(path, 'latin1').trim();
  } catch (error) {
    const { code, message } = asError(error);
    if (code === 'bad_config') throw error;
    throw refuse(`${message}; this makes one: (umask 077; openssl rand -hex 32 > ${path})`);
  }
  if (isToken(text, longest)) return text;
  throw refuse(
    `expected a token of 16 to ${longest} letters, digits and - . _ ~ + /, as of: openssl rand -hex 32`,
  );
}

/** A Host header without its port. */
function hostOf(text: string): string {
  const name = text.toLowerCase();
  if (hostName(name) === name) return name;
  throw badConfig(`--allow-host: expected a name without a port, got ${JSON.stringify(text)}`);
}
