/** Bugs in how the clients say who calls, find a stack, and try again. */
import type { Suite } from '../mutant.ts';

const ACCESS = 'test/sdk/access.test.ts';
const SIGN = 'test/sdk/sign.test.ts';
const STACK = 'test/sdk/stack.test.ts';
const TENANT = 'test/sdk/tenant.test.ts';

export const CALLERS: readonly Suite[] = [
  {
    file: 'sdk/http/access.ts',
    tests: [ACCESS],
    bugs: [
      {
        guarantee: 'credentials follow no redirect',
        find: "{ ...init, redirect: 'manual' }",
        replace: '{ ...init }',
      },
      {
        guarantee: 'credentials go to the origin of the API alone',
        find: 'if (new URL(to).origin !== origin)',
        replace: 'if (false)',
      },
    ],
  },
  {
    file: 'sdk/access.ts',
    tests: [ACCESS],
    bugs: [
      {
        guarantee: 'a token and an API key exclude each other',
        find: 'given.length > 1 ||',
        replace: 'false ||',
      },
      {
        guarantee: 'options outweigh the environment',
        find: 'isSaid || (auth ?? kind) !== kind ?',
        replace: '(auth ?? kind) !== kind ?',
      },
      {
        guarantee: 'an address that only looks like that of API Gateway is not signed for',
        find: '(?:amazonaws\\.com(?:\\.cn)?|api\\.aws)$/',
        replace: '(?:amazonaws\\.com(?:\\.cn)?|api\\.aws)/',
      },
      {
        guarantee: 'the region of the address outweighs that of the options',
        find: "regionOf(url) ?? (options.region || variables['AWS_REGION']",
        replace: "options.region ?? (regionOf(url) || variables['AWS_REGION']",
      },
      {
        guarantee: 'where a signature was asked for, nothing is sent without one',
        find: 'if (!isGuess || !(error instanceof ServingError)) throw error;',
        replace: 'if (!(error instanceof ServingError)) throw error;',
      },
      {
        guarantee: 'who passes a fetch may sign in it',
        find: 'options.fetch === undefined && regionOf(url) !== undefined;',
        replace: 'regionOf(url) !== undefined;',
      },
    ],
  },
  {
    file: 'sdk/sign.ts',
    tests: [SIGN],
    bugs: [
      {
        guarantee: 'what is sent is what is signed',
        find: 'return send(text, {',
        replace: 'return send(url, {',
      },
      {
        guarantee: 'a clock that is wrong is corrected',
        find: 'this.#now() + aheadMs',
        replace: 'this.#now()',
      },
      {
        guarantee: 'a 403 of a clock that agrees is the answer',
        find: 'response.status !== 403 || !(Math.abs(aheadMs - before) > SKEW_MS)',
        replace: 'response.status !== 403 || Number.isNaN(aheadMs)',
      },
      {
        guarantee: 'a correction that does not help is not kept',
        find: 'if (again.status !== 403) this.#aheadMs = aheadMs;',
        replace: 'this.#aheadMs = aheadMs;',
      },
      {
        guarantee: 'every character but the unreserved is escaped',
        find: "/[!'()*]/g",
        replace: "/[!'()]/g",
      },
      {
        guarantee: 'a signal ends the search for credentials',
        find: 'await limited({ signal }, () => this.#credentials())',
        replace: 'await this.#credentials()',
      },
    ],
  },
  {
    file: 'sdk/retries.ts',
    tests: [ACCESS],
    bugs: [
      {
        guarantee: 'what takes a result is not sent again after a failure',
        find: "return method === 'GET' ||",
        replace: 'return true ||',
      },
      {
        guarantee: 'an enqueue with its identity is sent again',
        find: "return method === 'GET' || new Headers(headers).has('idempotency-key');",
        replace: "return method === 'GET';",
      },
      {
        guarantee: 'a long pause is not waited for',
        find: '!(askedMs <= LONGEST_PAUSE_MS)',
        replace: 'false',
      },
      {
        guarantee: 'there are three tries',
        find: 'const TRIES = 3;',
        replace: 'const TRIES = 4;',
      },
    ],
  },
  {
    file: 'sdk/stack.ts',
    tests: [STACK],
    bugs: [
      {
        guarantee: 'a stack that is being removed is not used',
        find: "if (status.startsWith('DELETE_'))",
        replace: 'if (false)',
      },
      {
        guarantee: 'a stack that is still being created says so',
        find: "missing.includes('QueueUrl') && status.endsWith('_IN_PROGRESS')",
        replace: 'false',
      },
      {
        guarantee: 'a stack without an output says what it lacks',
        find: "['HttpApiUrl', 'QueueUrl', 'BucketName', 'JobName', 'Auth']",
        replace: "['HttpApiUrl', 'QueueUrl']",
      },
      {
        guarantee: 'the look-up has a time limit',
        find: 'const limit = { timeoutMs, signal,',
        replace: 'const limit = { timeoutMs: 600_000, signal,',
      },
      {
        guarantee: 'an ARN says its region',
        find: 'const region = arn?.[1] ?? options.region;',
        replace: 'const region = options.region;',
      },
    ],
  },
  {
    file: 'lib/queue/sender.ts',
    tests: [TENANT],
    bugs: [
      {
        guarantee: 'the tenant of a record is its message group',
        find: '{ MessageGroupId: groupId }',
        replace: '{}',
      },
      {
        guarantee: 'a message group has at most 128 characters',
        find: '{1,128}$/.test(text)',
        replace: '{1,129}$/.test(text)',
      },
    ],
  },
  {
    file: 'sdk/http/output-queue.ts',
    tests: [ACCESS],
    bugs: [
      {
        guarantee: 'dequeue ends at its time limit',
        find: 'if (!isFirst && now() >= endAt) return;',
        replace: '',
      },
    ],
  },
];
