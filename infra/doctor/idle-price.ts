/**
 * The price of a stack for a month without a request, from the resources of its packaged template. Prices are those of
 * lib/contract/prices.ts; usage (requests, GB stored, log bytes) is zero here.
 */
import { type Architecture, IDLE_PRICES, PRICES } from '../../lib/contract/prices.ts';
import {
  listOf,
  numberOf,
  type Properties,
  recordOf,
  resourcesOf,
  type Template,
  textOf,
} from './template.ts';

export interface IdlePrice {
  readonly region: string;
  /** The month in which the prices were written down: "2026-11". */
  readonly asOf: string;
  /** Dollars a month, to a cent. Undefined where a part has no known price. */
  readonly dollars: number | undefined;
  /** The largest first. */
  readonly parts: readonly { readonly what: string; readonly dollars: number }[];
  /** Resources that have a price outside the table. */
  readonly unknown: readonly string[];
}

const HOURS = 730;
/** A call by a schedule that finds nothing to do, as `trials` while nothing is on trial: assumed, in seconds, and its reads of S3. */
const CALL = { seconds: 0.1, gets: 3 };

/** @returns dollars a month; undefined when the price is not known */
type Price = (properties: Properties, template: Template) => number | undefined;

/** Resources that are billed although nothing happens, by type. Several types may have the same `what`. */
const BILLED: Readonly<Record<string, { readonly what: string; readonly price: Price }>> = {
  'AWS::ElastiCache::ReplicationGroup': { what: 'Redis', price: nodes },
  'AWS::ElastiCache::ServerlessCache': {
    what: 'Redis',
    price: () => HOURS * IDLE_PRICES.serverlessCacheHour,
  },
  'AWS::CloudWatch::Alarm': { what: 'alarms', price: (alarm) => metricsOf(alarm) * IDLE_PRICES.alarmMetric },
  'AWS::CloudWatch::Dashboard': { what: 'dashboard', price: () => IDLE_PRICES.dashboard },
  'AWS::EC2::VPCEndpoint': { what: 'interface endpoints', price: endpoint },
  'AWS::EC2::NatGateway': { what: 'NAT gateways', price: () => HOURS * IDLE_PRICES.natGatewayHour },
  'AWS::SecretsManager::Secret': { what: 'secrets', price: () => IDLE_PRICES.secret },
  'AWS::KMS::Key': { what: 'keys', price: () => IDLE_PRICES.key },
  'AWS::Lambda::Alias': { what: 'warm environments', price: warmEnvironments },
  'AWS::Events::Rule': { what: 'scheduled calls', price: scheduledCalls },
};

/** Billed by use, or not at all. A type that is in neither list has no known price. */
const FREE =
  /^AWS::(IAM|Budgets|Lambda::(Function|Version|Permission|EventSourceMapping)|ApiGatewayV2|SQS|SNS|S3|Logs|DynamoDB|EC2::(VPC|Subnet|RouteTable|SubnetRouteTableAssociation|SecurityGroup|SecurityGroupIngress|SecurityGroupEgress)|ElastiCache::(ParameterGroup|SubnetGroup|User|UserGroup))(::|$)/;

export function idlePrice(template: Template): IdlePrice {
  const sums = new Map<string, number>();
  const unknown: string[] = [];
  for (const type of new Set(Object.values(template.Resources).map(({ Type }) => Type))) {
    const billed = BILLED[type];
    if (billed === undefined) {
      if (!FREE.test(type)) unknown.push(type);
      continue;
    }
    for (const [name, properties] of resourcesOf(template, type)) {
      const dollars = billed.price(properties, template);
      if (dollars === undefined) unknown.push(name);
      else if (dollars > 0) sums.set(billed.what, (sums.get(billed.what) ?? 0) + dollars);
    }
  }
  const parts = [...sums].map(([what, dollars]) => ({ what, dollars: cents(dollars) }));
  const total = [...sums.values()].reduce((sum, dollars) => sum + dollars, 0);
  return {
    region: IDLE_PRICES.region,
    asOf: IDLE_PRICES.asOf,
    dollars: unknown.length > 0 ? undefined : cents(total),
    parts: parts.toSorted((a, b) => b.dollars - a.dollars),
    unknown,
  };
}

/** One line: `idle: 9.74 dollars a month: Redis 9.34, alarms 0.40 (us-east-1, prices of 2026-11; look yours up)`. */
export function idlePriceText({ dollars, parts, unknown, region, asOf }: IdlePrice): string {
  const list = parts.map((part) => `${part.what} ${part.dollars.toFixed(2)}`).join(', ') || 'nothing';
  const known = dollars === undefined ? 'not known' : `${dollars.toFixed(2)} dollars a month`;
  const missing = unknown.length > 0 ? `, and without a price here: ${unknown.join(', ')}` : '';
  return `idle: ${known}: ${list}${missing} (${region}, prices of ${asOf}; look yours up)`;
}

function cents(dollars: number): number {
  return Math.round(dollars * 100) / 100;
}

function nodes({ CacheNodeType, NumCacheClusters }: Properties): number | undefined {
  const hour = Object.hasOwn(IDLE_PRICES.cacheNodeHour, textOf(CacheNodeType))
    ? IDLE_PRICES.cacheNodeHour[textOf(CacheNodeType) as keyof typeof IDLE_PRICES.cacheNodeHour]
    : undefined;
  const count = numberOf(NumCacheClusters);
  return hour === undefined || count === undefined ? undefined : HOURS * hour * count;
}

/** An alarm on an expression is billed for each metric in it. */
function metricsOf({ Metrics }: Properties): number {
  const metrics = listOf(Metrics).filter((one) => recordOf(one)['MetricStat'] !== undefined);
  return Math.max(1, metrics.length);
}

/** A gateway endpoint is free, an interface endpoint is billed in each subnet. */
function endpoint({ VpcEndpointType, SubnetIds }: Properties): number {
  return textOf(VpcEndpointType) === 'Interface'
    ? HOURS * IDLE_PRICES.endpointHour * Math.max(1, listOf(SubnetIds).length)
    : 0;
}

function warmEnvironments(
  { FunctionName, ProvisionedConcurrencyConfig }: Properties,
  { Resources }: Template,
): number | undefined {
  const config = recordOf(ProvisionedConcurrencyConfig)['ProvisionedConcurrentExecutions'];
  if (config === undefined) return 0;
  const memoryMB = numberOf(Resources[String(recordOf(FunctionName)['Ref'])]?.Properties?.['MemorySize']);
  const count = numberOf(config);
  if (memoryMB === undefined || count === undefined) return undefined;
  return HOURS * 3600 * count * (memoryMB / 1024) * IDLE_PRICES.warmGBSecond;
}

/** The price of rules that call a function each minute; a rule that sends to a queue has no price here. */
function scheduledCalls(
  { ScheduleExpression, Targets }: Properties,
  { Resources }: Template,
): number | undefined {
  const functions = listOf(Targets).flatMap((target) => {
    const [name] = listOf(recordOf(recordOf(target)['Arn'])['Fn::GetAtt']);
    const resource = Resources[textOf(name)];
    return resource?.Type === 'AWS::Lambda::Function' ? [recordOf(resource.Properties)] : [];
  });
  if (functions.length === 0) return 0;
  const [, minutes] = /^rate\((\d+) minutes?\)$/.exec(textOf(ScheduleExpression)) ?? [];
  if (minutes === undefined) return undefined;
  const calls = (HOURS * 60) / Number(minutes);
  return functions.reduce((sum, { MemorySize, Architectures }) => {
    const architecture: Architecture = textOf(listOf(Architectures)[0]) === 'arm64' ? 'arm64' : 'x86_64';
    const seconds = CALL.seconds * ((numberOf(MemorySize) ?? 128) / 1024) * PRICES.perGBSecond[architecture];
    const requests = (PRICES.invocationsPerMillion + CALL.gets * PRICES.s3GetsPerMillion) / 1e6;
    return sum + calls * (seconds + requests);
  }, 0);
}
