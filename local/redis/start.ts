/**
 * Starts a Redis for the local stack: the machine's `redis-server`, else the embedded one. The two keep their data
 * apart (appendonlydir, embedded.aof), so results from before `redis-server` was installed are not visible.
 */
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { LOG_FILE } from '../../embedded-redis/engine.ts';
import { loopbackHost, startEmbedded } from '../../embedded-redis/server.ts';
import { runningTime } from '../machine/running-time.ts';
import { isInstalled } from './installed.ts';
import { keepInstalled, type RestartLimits } from './kept.ts';

export interface LocalRedis {
  /** `redis://127.0.0.1:<port>` */
  readonly url: string;
  readonly kind: 'redis-server' | 'embedded';
  readonly version: string;
  /** The pid of the current redis-server, which is restarted when it dies. */
  readonly pid?: number;
  /** Stops it with its data on disk. May be called twice. Close clients first. */
  close(): Promise<void>;
}

export interface LocalRedisOptions {
  /** Created if missing. Only one Redis at a time may use it. */
  readonly dataDir: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** A loopback address; default 127.0.0.1. */
  readonly host?: string | undefined;
  /** True uses the embedded Redis even if there is a redis-server. */
  readonly preferEmbedded?: boolean | undefined;
  readonly log: (message: string) => void;
  /** Name or path of the redis-server to look for; default `redis-server`. */
  readonly serverCommand?: string | undefined;
  /** When a dead redis-server is restarted. */
  readonly restart?: RestartLimits | undefined;
}

/** Resolves when Redis answers. Rejects with a `bad_config` that says what to do. */
export async function startRedis(options: LocalRedisOptions): Promise<LocalRedis> {
  const { dataDir, port, preferEmbedded = false, log, serverCommand = 'redis-server' } = options;
  const host = loopbackHost(options.host ?? '127.0.0.1');
  const useInstalled = !preferEmbedded && (await isInstalled(serverCommand, log));
  const other = path.join(dataDir, useInstalled ? LOG_FILE : 'appendonlydir');
  if (fs.existsSync(other))
    log(`Redis: the data in ${other} are of the other kind of server and are not read`);
  const urlOf = (at: number) => `redis://${net.isIPv6(host) ? `[${host}]` : host}:${at}`;
  if (!useInstalled) {
    const embedded = await startEmbedded({ dataDir, port, host, log, now: runningTime });
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
