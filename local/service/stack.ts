/**
 * Runs the whole service on one machine: one SQS, S3 and Redis, and for every job its own queue, results, model and
 * HTTP port. Parts close in the reverse order of opening: first the endpoints, then what they depend on.
 */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { badConfig } from '../../lib/contract/errors.ts';
import { logError } from '../../lib/contract/log.ts';
import { elementAt } from '../../lib/contract/present.ts';
import { type LocalAws, startAws } from '../aws/aws.ts';
import type { LocalLog } from '../aws/lambda.ts';
import { warnOfUnreadStreams } from '../bridge/own.ts';
import type { GrpcJob } from '../grpc/methods.ts';
import { type Access, readAccess } from '../machine/access.ts';
import { holdFolder } from '../machine/lock.ts';
import { assertPortsFree } from '../machine/ports.ts';
import { startRedis } from '../redis/start.ts';
import { credentialsOf, protectFolder } from './data-folder.ts';
import { LOCAL_BUCKET } from './environment.ts';
import { type JobAddresses, openJob } from './job.ts';
import { modelHere } from './model.ts';
import type { JobServices, ServedJob } from './runs.ts';

/** That of gRPC undefined where there is none. */
export interface Ports {
  readonly http: number;
  readonly aws: number;
  readonly redis: number;
  readonly grpc?: number | undefined;
}

interface StackOptions {
  /** One or more jobs with different names. */
  readonly jobs: readonly [ServedJob, ...ServedJob[]];
  /** The folder of everything that survives a restart. */
  readonly dataDir: string;
  /** 0 takes any free port. A second job's HTTP port is three above the first's, a third's four, and so on. */
  readonly ports: Ports;
  /** Uses the embedded Redis even if a redis-server is installed. */
  readonly preferEmbeddedRedis?: boolean;
  /** Who may call. Default: this machine, without a token. */
  readonly access?: Access;
  /** See JobServices. */
  readonly readyMs?: number;
  /** See JobServices. */
  readonly modelProcess?: JobServices['modelProcess'];
  /** See JobServices. */
  readonly trials?: JobServices['trials'];
  readonly log: LocalLog;
  /** See JobServices. */
  readonly terminate?: (how: string) => void;
}

export interface Stack extends JobAddresses {
  /** All jobs; the first one's addresses are also at the top level. */
  readonly jobs: readonly JobAddresses[];
  readonly redisUrl: string;
  /** The port of the Open Inference Protocol over gRPC, for all jobs. */
  readonly grpcPort: number | undefined;
  readonly redis: { readonly kind: 'redis-server' | 'embedded'; readonly version: string };
  readonly bucket: string;
  readonly aws: LocalAws;
  close(): Promise<void>;
}

/**
 * Not an AWS region, because for those version 1 of the aws command line ignores AWS_ENDPOINT_URL and calls the real
 * SQS.
 */
const REGION = 'local';

/** The two ports above the first HTTP port belong to SQS and Redis. */
const PORTS_OF_THE_FIRST = 3;

export async function startStack(options: StackOptions): Promise<Stack> {
  const closers: (() => Promise<void>)[] = [];
  const closeAll = async () => {
    for (const close of closers.reverse().splice(0)) await close().catch((error: unknown) => logError(error));
  };
  try {
    const stack = await openStack(options, (close) => closers.push(close));
    let closing: Promise<void> | undefined;
    return { ...stack, close: () => (closing ??= closeAll()) };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

async function openStack(
  options: StackOptions,
  onClose: (close: () => Promise<void>) => void,
): Promise<Omit<Stack, 'close'>> {
  const { jobs, dataDir, ports, preferEmbeddedRedis, access = readAccess({}), log, ...rest } = options;
  assertDifferent(jobs);
  const httpPorts = jobs.map((_, i) => httpPort(ports.http, i));
  await assertPortsFree(wantedPorts(ports, httpPorts, access));
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  onClose(await holdFolder(dataDir));
  await protectFolder(dataDir, (message) => log.warn(message));
  const redis = await startRedis({
    dataDir: join(dataDir, 'redis'),
    port: ports.redis,
    preferEmbedded: preferEmbeddedRedis,
    log: (message) => log.warn(message),
  });
  onClose(() => redis.close());
  const aws = await startAws({
    dataDir: join(dataDir, 'aws'),
    port: ports.aws,
    region: REGION,
    credentials: await credentialsOf(dataDir),
    log,
  });
  onClose(() => aws.close());
  const services = { ...rest, aws, redisUrl: redis.url, dataDir, access, log };
  const opened: JobAddresses[] = [];
  const offered: GrpcJob[] = [];
  for (const [i, job] of jobs.entries()) {
    const modelDirectory = await modelHere(job.job, job.modelDirectory, dataDir, { prunes: true });
    opened.push(
      await openJob(
        { ...job, modelDirectory },
        { ...services, port: elementAt(httpPorts, i, 'httpPorts'), offer: (one) => offered.push(one) },
        onClose,
      ),
    );
  }
  await warnOfUnreadStreams(redis.url, opened, log);
  return {
    ...elementAt(opened, 0, 'opened'),
    jobs: opened,
    redisUrl: redis.url,
    grpcPort: await openGrpc(options, offered, onClose),
    redis,
    bucket: LOCAL_BUCKET,
    aws,
  };
}

function wantedPorts({ aws, redis, grpc }: Ports, httpPorts: readonly number[], { host }: Access) {
  return [
    ...httpPorts.map((port) => ({ port, option: '--port', host })),
    { port: aws, option: '--aws-port' },
    { port: redis, option: '--redis-port' },
    ...(grpc === undefined ? [] : [{ port: grpc, option: '--grpc-port', host }]),
  ];
}

/** Loaded where a port is given only. */
async function openGrpc(
  { jobs, ports, access = readAccess({}) }: StackOptions,
  offered: readonly GrpcJob[],
  onClose: (close: () => Promise<void>) => void,
): Promise<number | undefined> {
  if (ports.grpc === undefined) return undefined;
  const { startGrpc } = await import('../grpc/server.ts');
  const allowedHosts = [...access.allowedHosts, ...jobs.flatMap(({ job }) => job.http.allowedHosts)];
  const grpc = await startGrpc({
    port: ports.grpc,
    access: { ...access, allowedHosts },
    jobs: [elementAt(offered, 0, 'the jobs of gRPC'), ...offered.slice(1)],
  });
  onClose(() => grpc.close());
  return grpc.port;
}

function httpPort(first: number, i: number): number {
  return first === 0 || i === 0 ? first : first + PORTS_OF_THE_FIRST - 1 + i;
}

/** Jobs with the same name would take each other's records. */
function assertDifferent(jobs: readonly ServedJob[]): void {
  const names = jobs.map(({ job }) => job.jobName);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice === undefined) return;
  throw badConfig(`two configs have the jobName ${twice}; each job needs its own`);
}
