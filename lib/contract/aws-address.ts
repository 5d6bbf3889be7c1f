/**
 * Addresses in AWS: the domain and the partition of a region, and targets of notices as config.yaml writes them, which are a bus of
 * EventBridge, a topic of SNS, a queue of SQS or a state machine of Step Functions.
 */
import type { Target } from './notice.ts';

export interface AwsAddress {
  /** As in an ARN. */
  readonly service: 'events' | 'sns' | 'sqs' | 'states';
  readonly name: string;
  /** Undefined for a bus that is given by its name. */
  readonly place?: { readonly region: string; readonly account: string } | undefined;
}

const ARN =
  /^arn:(aws(?:-cn|-us-gov)?):(events|sns|sqs|states):([a-z]{2}(?:-[a-z]+)+-\d):(\d{12}):(event-bus\/|stateMachine:)?(.+)$/;
const QUEUE_URL = /^https:\/\/sqs\.([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?\/(\d{12})\/(.+)$/;
const NAMES = {
  events: /^[A-Za-z0-9._-]{1,256}$/,
  sns: /^(?=.{1,256}$)[A-Za-z0-9_-]+(\.fifo)?$/,
  sqs: /^(?=.{1,80}$)[A-Za-z0-9_-]+(\.fifo)?$/,
  states: /^[A-Za-z0-9_.+!@=-]{1,80}$/,
} as const;
/** The text before the name in an ARN. */
const KINDS: Readonly<Record<AwsAddress['service'], string>> = {
  events: 'event-bus/',
  sns: '',
  sqs: '',
  states: 'stateMachine:',
};

/** @returns undefined for what is neither the name nor the ARN of a bus */
export function busOf(text: string): AwsAddress | undefined {
  return NAMES.events.test(text) ? { service: 'events', name: text } : ofArn('events', text);
}

/** @returns undefined for what is no ARN of a topic */
export function topicOf(text: string): AwsAddress | undefined {
  return ofArn('sns', text);
}

/** @returns undefined for what is neither the URL nor the ARN of a queue */
export function queueOf(text: string): AwsAddress | undefined {
  const [, region, account, name] = QUEUE_URL.exec(text) ?? [];
  if (region === undefined || account === undefined || name === undefined) return ofArn('sqs', text);
  return NAMES.sqs.test(name) ? { service: 'sqs', name, place: { region, account } } : undefined;
}

/** @returns undefined for what is no ARN of a state machine, or that of one of its versions */
export function stateMachineOf(text: string): AwsAddress | undefined {
  return ofArn('states', text);
}

function ofArn(service: AwsAddress['service'], text: string): AwsAddress | undefined {
  const [, partition, product, region, account, kind = '', name] = ARN.exec(text) ?? [];
  if (product !== service || region === undefined || account === undefined || name === undefined)
    return undefined;
  if (partition !== partitionOf(region) || kind !== KINDS[service]) return undefined;
  return NAMES[service].test(name) ? { service, name, place: { region, account } } : undefined;
}

/** @returns undefined for a webhook */
export function awsAddressOf({ eventBridge, sns, sqs, stepFunctions }: Target): AwsAddress | undefined {
  if (eventBridge !== undefined) return busOf(eventBridge);
  if (sns !== undefined) return topicOf(sns);
  if (stepFunctions !== undefined) return stateMachineOf(stepFunctions);
  return sqs === undefined ? undefined : queueOf(sqs);
}

/** In the account and the region of the stack: that of the config may be a URL or a name. */
export function arnOf({ service, name }: AwsAddress, region: string, account: string): string {
  return `arn:${partitionOf(region)}:${service}:${region}:${account}:${KINDS[service]}${name}`;
}

/** Topics and queues alone have it. */
export function isFifo({ name }: AwsAddress): boolean {
  return name.endsWith('.fifo');
}

/** The domain of the services of a region. */
export function domainOf(region: string): string {
  return region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
}

export function partitionOf(region: string): 'aws' | 'aws-cn' | 'aws-us-gov' {
  if (region.startsWith('cn-')) return 'aws-cn';
  return region.startsWith('us-gov-') ? 'aws-us-gov' : 'aws';
}
