/** Blocks that closed forms calculate: a plan for a billion a day, and what stores of results cost. */
import { fileURLToPath } from 'node:url';
import { serverlessPrice } from '../../../cli/plan/bill.ts';
import { callsOfRow } from '../../../cli/plan/calls.ts';
import { documentOf } from '../../../cli/plan/document.ts';
import { loadOf } from '../../../cli/plan/load.ts';
import { reportText } from '../../../cli/plan/report.ts';
import { capacityOf } from '../../../infra/doctor/capacity.ts';
import { readFacts } from '../../../infra/doctor/facts.ts';
import { tablePriceOf } from '../../../infra/doctor/table-price.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { IDLE_PRICES } from '../../../lib/contract/prices.ts';
import { table, thousands } from './table.ts';

export const BILLION = {
  rate: '1e9/day',
  peak: 3,
  bytes: 400,
  numbers: 10,
  ms: 50,
  overhead: 3,
  records: 32,
} as const;
/** This folder has neither a config nor a package, so the plan is that of the defaults. */
const ROOT = fileURLToPath(new URL('.', import.meta.url));
const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));

export async function billionPlan() {
  const { rate, ms, overhead, records } = BILLION;
  const request = { config: undefined, stage: undefined, parameters: {}, template: undefined };
  const { facts } = await readFacts({ ...request, root: ROOT, project: PROJECT, packageFolder: undefined });
  const events = { records, windowSeconds: 1, memoryMB: facts.job.function.memoryMB };
  return documentOf(rate, loadOf(rate, BILLION), callsOfRow(ms, overhead, events, '--ms'), facts);
}

export async function billionText(): Promise<string> {
  const { rate, peak, bytes, ms, records } = BILLION;
  const command = `npx cluster-serving plan --rate ${rate} --bytes ${bytes} --peak ${peak} --ms ${ms} --records ${records}`;
  return `\`\`\`text\n$ ${command}\n${reportText(await billionPlan())}\n\`\`\``;
}

const RATES = [10_000, 100_000, 1_000_000];
const MILLION = 1e6;
const MONTH_HOURS = 730;
const MONTH_DAYS = MONTH_HOURS / 24;
/** Dollars a month of a table in DynamoDB. @param perDay records, each read once */
export function tablePrice(perDay: number): number {
  return tablePriceOf((perDay * MONTH_DAYS) / MILLION, perDay, DEFAULT_JOB);
}

function capacityOfKind(redis: 'node' | 'serverless', redisNodeType = 'cache.t4g.micro') {
  return capacityOf({ arch: 'x86_64', redisNodeType, redisMaxGB: 5_000, files: { redis } }, DEFAULT_JOB);
}

export function storesTable(): string {
  const cell = (perDay: number, dollars: number | undefined) => {
    if (dollars === undefined) return 'does not hold them';
    const each = dollars / ((perDay * MONTH_DAYS) / MILLION);
    return `${dollars.toFixed(2)}, ${each.toFixed(2)} a million`;
  };
  const node = (type: keyof typeof IDLE_PRICES.cacheNodeHour) => (perDay: number) =>
    perDay > (capacityOfKind('node', type).recordsPerDay ?? 0)
      ? undefined
      : MONTH_HOURS * IDLE_PRICES.cacheNodeHour[type];
  const { bytesPerDailyRecord } = capacityOfKind('serverless');
  const stores: Readonly<Record<string, (perDay: number) => number | undefined>> = {
    '`redis=node`, a cache.t4g.micro': node('cache.t4g.micro'),
    '`redis=node`, a cache.t4g.small': node('cache.t4g.small'),
    '`redis=serverless`, `redis=public`': (perDay) =>
      serverlessPrice(perDay * bytesPerDailyRecord, perDay * MONTH_DAYS),
    '`results=dynamodb`': tablePrice,
  };
  const heads = ['dollars a month', 'idle', ...RATES.map((rate) => `${thousands(rate)} a day`)];
  const rows = Object.entries(stores).map(([name, price]) => [
    name,
    (price(0) ?? 0).toFixed(2),
    ...RATES.map((rate) => cell(rate, price(rate))),
  ]);
  return table(heads, rows);
}
