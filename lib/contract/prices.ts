/**
 * The prices for cost estimates, in US dollars for us-east-1, as in docs/explanation/costs.md (a test compares the two).
 * They were written down from memory in November 2026 and not checked against a bill.
 */

export const ARCHITECTURES = ['x86_64', 'arm64'] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

export const PRICES = {
  region: 'us-east-1',
  asOf: '2026-11',
  /** Lambda duration; a GB is 1,024 MB of function.memoryMB. */
  perGBSecond: { x86_64: 0.000_016_666_7, arm64: 0.000_013_333_4 },
  invocationsPerMillion: 0.2,
  /** HTTP API; each 512 KB of a request is billed as one. */
  apiRequestsPerMillion: 1,
  /** Sends, receives and deletes of up to ten messages; each 64 KB is billed as one. */
  queueRequestsPerMillion: 0.4,
  /** For records that are too large for a message. */
  s3PutsPerMillion: 5,
  s3GetsPerMillion: 0.4,
  /** ElastiCache Serverless for Valkey: a million of its units of work. */
  millionECPUs: 0.0023,
} as const;

/** By use, beside requests and time. */
export const USE_PRICES = {
  logsPerGB: 0.5,
  /** By metric that was written, and month. */
  metric: 0.3,
  tracesPerMillion: 5,
  /** ElastiCache Serverless for Valkey: what is stored, the first 0.1 GB in any case. */
  serverlessCacheGBHour: 0.084,
  /** DynamoDB on demand: a write of 1 KB, a read of 4 KB, a GB for a month. */
  tableWritesPerMillion: 0.625,
  tableReadsPerMillion: 0.125,
  tableGBMonth: 0.25,
} as const;

/** Billed as one request. */
export const API_UNIT_BYTES = 512 * 1024;
export const QUEUE_UNIT_BYTES = 64 * 1024;

/** Prices by the hour or the month, used or not. */
export const IDLE_PRICES = {
  region: PRICES.region,
  asOf: PRICES.asOf,
  /** Valkey, by node and hour. */
  cacheNodeHour: { 'cache.t4g.micro': 0.0128, 'cache.t4g.small': 0.0256 },
  /** The memory of such a node, in GiB. */
  cacheNodeGB: { 'cache.t4g.micro': 0.5, 'cache.t4g.small': 1.37 },
  /** ElastiCache Serverless for Valkey, the 100 MB that are billed at least. */
  serverlessCacheHour: 0.0084,
  /** By metric of an alarm and month. */
  alarmMetric: 0.1,
  dashboard: 3,
  /** Interface endpoints, by zone and hour. */
  endpointHour: 0.01,
  natGatewayHour: 0.045,
  secret: 0.4,
  key: 1,
  /** Provisioned environments, whether they run or not. */
  warmGBSecond: 0.000_004_166_7,
} as const;
