/**
 * In: a folder and a port. Out: a Redis for the local stack: the machine's `redis-server`, else the embedded one.
 * Trap: the two keep their data apart (appendonlydir, embedded.aof): after `redis-server` is installed, results of
 * before are not seen.
 */
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { LOG_FILE } from '../../embedded-redis/engine.ts';
import { loopbackHost, startEmbedded } from '../../embedded-redis/server.ts';
import { isInstalled } from './installed.ts';
import { keepInstalled, type RestartLimits } from './kept.ts';

export interface LocalRedis {
  /** `redis://127.0.0.1:<port>` */
  readonly url: string;
  readonly kind: 'redis-server' | 'embedded';
  readonly version: string;
  /** Of the redis-server that runs now: one that dies is started again. */
  readonly pid?: number;
  /** Ends it with its data on disk; may be called again. Clients are to be closed before. */
  close(): Promise<void>;
}

export interface LocalRedisOptions {
  /** Made if it is missing. One Redis at a time may use it. */
  readonly dataDir: string;
  /** 0: any free one. */
  readonly port: number;
  /** A loopback address; default 127.0.0.1. */
  readonly host?: string | undefined;
  /** True: the embedded one even where there is a redis-server. */
  readonly preferEmbedded?: boolean | undefined;
  readonly log: (message: string) => void;
  /** Name or path of the redis-server to look for; default `redis-server`. */
  readonly serverCommand?: string | undefined;
  /** When a redis-server that dies is started again. */
  readonly restart?: RestartLimits | undefined;
}

/** Resolves when it answers. Rejects with `bad_config`, saying what to do. */
export async function startRedis(options: LocalRedisOptions): Promise<LocalRedis> {
  const { dataDir, port, preferEmbedded = false, log, serverCommand = 'redis-server' } = options;
  const host = loopbackHost(options.host ?? '127.0.0.1');
  const useInstalled = !preferEmbedded && (await isInstalled(serverCommand, log));
  const other = path.join(dataDir, useInstalled ? LOG_FILE : 'appendonlydir');
  if (fs.existsSync(other))
    log(`Redis: the data in ${other} are of the other kind of server and are not read`);
  const urlOf = (at: number) => `redis://${net.isIPv6(host) ? `[${host}]` : host}:${at}`;
  if (!useInstalled) {
    const embedded = await startEmbedded({ dataDir, port, host, log, now: Date.now });
    return { url: urlOf(embedded.port), kind: 'embedded', ...embedded };
  }
  const kept = await keepInstalled({ command: serverCommand, dataDir, port, host, log }, options.restart);
  return {
    url: urlOf(kept.port),
    kind: 'redis-server',
    version: kept.version,
    get pid() {
      return kept.pid;
    },
    close: () => kept.close(),
  };
}
