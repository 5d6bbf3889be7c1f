/** Reads who is notified of outcomes: `{shop: {url: https://shop.example/hooks, secret: /shop/hook-secret}, stock: {eventBridge: default}}`. */
import { busOf, queueOf, stateMachineOf, topicOf } from '../contract/aws-address.ts';
import { badConfig } from '../contract/errors.ts';
import {
  isLoopbackUrl,
  isTargetName,
  MOST_TARGETS,
  NAME_RULE,
  type Target,
  type Targets,
} from '../contract/notice.ts';
import { suggest } from '../contract/suggest.ts';
import { isFields, shown, shownKey, type Value } from './value.ts';

const MAX_URL_LENGTH = 2_048;
/** As Systems Manager names parameters. */
const PARAMETER = /^\/?[A-Za-z0-9_.-]+(\/[A-Za-z0-9_.-]+){0,14}$/;
const MAX_PARAMETER_LENGTH = 1_011;

type Key = keyof Target;
/** @returns what is wrong with a value; undefined when it is right */
type Check = (text: string) => string | undefined;

const KEYS: Readonly<Record<Key, Check>> = {
  url: problemOfUrl,
  secret: (text) =>
    text.length <= MAX_PARAMETER_LENGTH && PARAMETER.test(text)
      ? undefined
      : 'expected the name of a parameter in Systems Manager, such as /shop/hook-secret; the secret itself is never in this file',
  eventBridge: (text) =>
    busOf(text) === undefined
      ? 'expected the name or the ARN of an event bus, such as default or arn:aws:events:eu-west-1:123456789012:event-bus/orders'
      : undefined,
  sns: (text) =>
    topicOf(text) === undefined
      ? 'expected the ARN of a topic, such as arn:aws:sns:eu-west-1:123456789012:orders'
      : undefined,
  sqs: (text) =>
    queueOf(text) === undefined
      ? 'expected the URL or the ARN of a queue, such as arn:aws:sqs:eu-west-1:123456789012:orders'
      : undefined,
  stepFunctions: (text) =>
    stateMachineOf(text) === undefined
      ? 'expected the ARN of a state machine, such as arn:aws:states:eu-west-1:123456789012:stateMachine:orders'
      : undefined,
  include: (text) => (text === 'result' ? undefined : `expected result, got ${shown(text)}`),
};
const ADDRESSES: readonly Key[] = ['url', 'eventBridge', 'sns', 'sqs', 'stepFunctions'];

/** Undefined for a value that has no names with keys. @throws bad_config for what is wrong below a name */
export function targetsOf(value: Value): Targets | undefined {
  if (!isFields(value)) return undefined;
  const { fields } = value;
  if (fields.length > MOST_TARGETS)
    throw badConfig(`${fields.length} targets are over the limit of ${MOST_TARGETS}`);
  const targets = new Map<string, Target>();
  for (const { key: name, value: target } of fields) {
    if (!isTargetName(name)) throw badConfig(`${shownKey(name)}: expected ${NAME_RULE}`);
    if (targets.has(name)) throw badConfig(`${name} is there twice; keep one`);
    targets.set(name, targetOf(name, target));
  }
  return Object.fromEntries(targets);
}

function targetOf(name: string, value: Value): Target {
  const known = Object.keys(KEYS);
  if (!isFields(value)) throw badConfig(`${name}: expected keys under it (${known.join(', ')})`);
  const texts = new Map<string, string>();
  for (const { key, value: text } of value.fields) {
    const checks: Readonly<Record<string, Check | undefined>> = KEYS;
    const check = Object.hasOwn(checks, key) ? checks[key] : undefined;
    if (!check) {
      const near = suggest(key, known);
      const hint = near === undefined ? `known are ${known.join(', ')}` : `did you mean ${near}?`;
      throw badConfig(`${name}: ${shownKey(key)}: unknown key; ${hint}`);
    }
    if (texts.has(key)) throw badConfig(`${name}: ${key} is there twice; keep one`);
    if (typeof text !== 'string') throw badConfig(`${name}: ${key}: expected a text`);
    const problem = check(text);
    if (problem !== undefined) throw badConfig(`${name}: ${key}: ${problem}`);
    texts.set(key, text);
  }
  const addresses = ADDRESSES.filter((key) => texts.has(key));
  if (addresses.length !== 1) throw badConfig(`${name}: expected one of ${ADDRESSES.join(', ')}`);
  if (texts.has('secret') && !texts.has('url')) throw badConfig(`${name}: secret belongs to a url`);
  if (texts.has('include') && texts.has('stepFunctions'))
    throw badConfig(`${name}: a task gets the result without \`include\`; leave it out`);
  const { include: _, ...others }: Partial<Record<Key, string>> = Object.fromEntries(texts);
  return { ...others, ...(texts.has('include') && { include: 'result' }) };
}

function problemOfUrl(text: string): string | undefined {
  const url = text.length <= MAX_URL_LENGTH ? URL.parse(text) : null;
  if (!url) return `expected an https address of at most ${MAX_URL_LENGTH} characters`;
  if (url.username !== '' || url.password !== '') return 'an address with a password is not called';
  if (url.hash !== '') return 'a fragment (#…) is not sent; leave it out';
  if (isLoopbackUrl(url.href)) return undefined;
  if (url.protocol !== 'https:') return 'only https is called';
  return url.port === '' ? undefined : `only port 443 is called, got ${url.port}`;
}
