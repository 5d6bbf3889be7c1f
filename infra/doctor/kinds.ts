/**
 * What follows from the kind of Redis: the table of docs/how-to/choose-a-redis.md (written by `npm run docs`) and a line of doctor. Prices
 * and capacities are calculated here for the defaults of dev and prod, and for one GB.
 */
import type { JobConfig } from '../../lib/config/job.ts';
import { IDLE_PRICES, PRICES } from '../../lib/contract/prices.ts';
import type { Settings } from '../template/config.ts';
import { capacityOf } from './capacity.ts';
import { tableMillion } from './table-price.ts';

type RedisKind = Settings['files']['redis'];

interface Facts {
  readonly vpc: string;
  readonly reach: string;
  readonly clients: string;
  readonly whenFull: string;
  readonly mayChange: string;
  readonly cannotChange: string;
}

const ELSEWHERE = 'what its provider charges';

const REDIS_KINDS: Readonly<Record<RedisKind, Facts>> = {
  node: {
    vpc: 'yes, unless `vpcId`',
    reach: 'S3; SQS with `respondAsync`',
    clients: 'inside the VPC',
    whenFull: 'the save fails, and the record comes again',
    mayChange: 'node type, number of nodes',
    cannotChange: 'the network; `redis`',
  },
  serverless: {
    vpc: 'yes, unless `vpcId`',
    reach: 'S3; SQS with `respondAsync`',
    clients: 'inside the VPC',
    whenFull: 'evicts results [AWS]',
    mayChange: 'both limits',
    cannotChange: 'the network; `redis`',
  },
  public: {
    vpc: 'no',
    reach: 'everything',
    clients: 'from anywhere, by IAM',
    whenFull: 'refuses new records at 90 %',
    mayChange: 'both limits',
    cannotChange: '`redis`',
  },
  shared: {
    vpc: 'no',
    reach: 'S3; SQS with `respondAsync=routed`',
    clients: 'inside the VPC',
    whenFull: 'the save fails, and the record comes again',
    mayChange: 'nothing here',
    cannotChange: '`redisStack`; `redis`',
  },
  dynamodb: {
    vpc: 'no',
    reach: 'everything',
    clients: 'over HTTPS only',
    whenFull: 'it is never full',
    mayChange: 'nothing',
    cannotChange: '`results`',
  },
  url: {
    vpc: 'no',
    reach: 'everything',
    clients: 'from anywhere, by password',
    whenFull: 'what `noeviction` does',
    mayChange: 'address, password',
    cannotChange: '`redis`',
  },
};

const HOURS = 730;
/** Announcing, saving and reading a record: three scripts and a read of some commands each, none over 1 KB. A guess. */
export const ECPUS_OF_RECORD = 8;
/** As serverless.yml has them. */
const NODES = {
  dev: { type: 'cache.t4g.micro', count: 1 },
  prod: { type: 'cache.t4g.small', count: 2 },
} as const;

/** Heads, then rows. @param job the defaults */
export function redisKindsTable(job: JobConfig): readonly (readonly string[])[] {
  const kinds: readonly RedisKind[] = ['node', 'serverless', 'public', 'shared', 'url', 'dynamodb'];
  const row = (what: string, cell: (kind: RedisKind) => string) => [what, ...kinds.map(cell)];
  return [
    row('', (kind) => (kind === 'dynamodb' ? '`results=dynamodb`' : `\`${kind}\``)),
    row("takes one of the region's 5 VPCs", (kind) => REDIS_KINDS[kind].vpc),
    row('its functions reach', (kind) => REDIS_KINDS[kind].reach),
    row('clients reach it', (kind) => REDIS_KINDS[kind].clients),
    row('idle, a month', idleCell),
    row('a million records written and read', millionCell),
    row('full at (answers of 10 numbers, kept for a day)', (kind) => fullCell(kind, job)),
    row('when it is full', (kind) => REDIS_KINDS[kind].whenFull),
    row('an update may change', (kind) => REDIS_KINDS[kind].mayChange),
    row('an update cannot change, without losing results', (kind) => REDIS_KINDS[kind].cannotChange),
  ];
}

/** `redis=url: takes a VPC: no; its functions reach everything; …` */
export function redisKindText(kind: RedisKind): string {
  const { vpc, reach, clients, mayChange, cannotChange } = REDIS_KINDS[kind];
  const name = kind === 'dynamodb' ? 'results=dynamodb' : `redis=${kind}`;
  const text = `${name}: takes a VPC: ${vpc}; its functions reach ${reach}; clients reach it ${clients}; an update may change ${mayChange}, and not, without losing results, ${cannotChange}`;
  return text.replaceAll('`', '').replaceAll(' [AWS]', '');
}

function idleCell(kind: RedisKind): string {
  if (kind === 'url') return ELSEWHERE;
  if (kind === 'shared') return 'nothing here';
  if (kind === 'dynamodb') return '0.00';
  if (kind !== 'node') return (HOURS * IDLE_PRICES.serverlessCacheHour).toFixed(2);
  const of = ({ type, count }: (typeof NODES)['dev' | 'prod']) =>
    (HOURS * count * IDLE_PRICES.cacheNodeHour[type]).toFixed(2);
  return `${of(NODES.dev)} dollars; \`prod\` ${of(NODES.prod)}`;
}

function millionCell(kind: RedisKind): string {
  if (kind === 'url') return ELSEWHERE;
  if (kind === 'node' || kind === 'shared') return 'nothing';
  if (kind === 'dynamodb') return `about ${tableMillion().toFixed(2)} dollars`;
  return `about ${(ECPUS_OF_RECORD * PRICES.millionECPUs).toFixed(2)} dollars`;
}

function fullCell(kind: RedisKind, job: JobConfig): string {
  const at = (redisNodeType: string) => {
    const { recordsPerDay } = capacityOf(
      { arch: 'x86_64', files: { redis: kind }, redisNodeType, redisMaxGB: 1 },
      job,
    );
    return recordsPerDay === undefined ? undefined : thousandsOf(recordsPerDay);
  };
  if (kind === 'url') return '[AWS]';
  if (kind === 'shared') return 'as its node';
  if (kind === 'dynamodb') return 'never';
  const dev = at(NODES.dev.type);
  return kind === 'node'
    ? `${dev} records a day; \`prod\` ${at(NODES.prod.type)}`
    : `${dev} records a day for each GB`;
}

function thousandsOf(count: number): string {
  return (Math.floor(count / 1_000) * 1_000).toLocaleString('en-US');
}
