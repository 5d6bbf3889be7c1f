/**
 * An emulated AWS account for `serverless` and for functions: moto's server in a process of its own (account.py), which also
 * records every call. It ends with this process.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';
import { KEYS, SIGNED_REGION } from '../../support/signed-api.ts';

/** As `GET /-/state` of account.py shows it, in the shapes of AWS's APIs. */
export interface AccountState {
  readonly functions: readonly DeployedFunction[];
  readonly mappings: readonly Mapping[];
  readonly roles: readonly Role[];
  readonly apis: readonly Api[];
  /** Addresses. */
  readonly queues: readonly string[];
  readonly buckets: readonly string[];
  readonly logGroups: readonly { readonly logGroupName: string; readonly retentionInDays?: number }[];
  /** Pairs of the name of a function and the place of its archive. */
  readonly codes: readonly (readonly [string, string])[];
  readonly redisUsers: readonly { readonly UserName: string; readonly AccessString: string }[];
  readonly stacks: readonly { readonly StackName: string; readonly StackStatus: string }[];
  readonly [kind: string]: readonly unknown[];
}

export interface DeployedFunction {
  readonly FunctionName: string;
  readonly FunctionArn: string;
  readonly Role: string;
  readonly Handler: string;
  readonly MemorySize: number;
  readonly Timeout: number;
  readonly Environment: { readonly Variables: Readonly<Record<string, string>> };
}

export interface Mapping {
  readonly EventSourceArn: string;
  readonly FunctionArn: string;
  readonly BatchSize: number;
  readonly MaximumBatchingWindowInSeconds?: number;
}

export interface Role {
  readonly Arn: string;
  readonly RoleName: string;
  readonly Statements: readonly Statement[];
  /** Of a session of this role, as Lambda gives them to a function. */
  readonly Credentials: {
    readonly AccessKeyId: string;
    readonly SecretAccessKey: string;
    readonly SessionToken: string;
  };
}

export interface Statement {
  readonly Sid?: string;
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: string | readonly string[];
  readonly Condition?: unknown;
}

export interface Api {
  readonly ApiId: string;
  readonly Routes: readonly {
    readonly RouteKey: string;
    readonly Target: string;
    readonly AuthorizationType: string;
  }[];
  readonly Integrations: readonly { readonly IntegrationId: string; readonly IntegrationUri: string }[];
  readonly Stages: readonly Readonly<Record<string, unknown>>[];
}

/** One request to an API of AWS, as it came. */
export interface Recorded {
  readonly key: string;
  readonly service: string;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly target: string;
  readonly body: string;
}

export interface Moto {
  readonly url: string;
  /** What stands for a Redis of ElastiCache (host and port) and for the HTTP API's own address. */
  place(places: { readonly redis?: readonly [string, number]; readonly api?: string }): Promise<void>;
  state(): Promise<AccountState>;
  /** One call of a service with the JSON protocol. */
  ask(service: string, target: string, input: unknown): Promise<unknown>;
  recorded(): Promise<Recorded[]>;
  /** What it wrote to stderr so far. */
  output(): string;
}

/** Of the emulated account, and of who signs requests in tests. */
export const REGION = SIGNED_REGION;
const ACCOUNT = fileURLToPath(new URL('account.py', import.meta.url));

/** @param tools the folder with python */
export async function startMoto(t: Hooks, tools: string): Promise<Moto> {
  const record = join(await temporaryFolder(t, 'cluster-serving-moto-'), 'record.jsonl');
  const child = spawn(join(tools, 'python'), [ACCOUNT, record], { stdio: ['pipe', 'pipe', 'pipe'] });
  let output = '';
  child.stderr.on('data', (chunk) => (output += String(chunk)));
  const exit = once(child, 'exit');
  t.after(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const first = once(createInterface(child.stdout), 'line').then(([line]) => Number(line));
  const port = await Promise.race([
    first,
    exit.then(() => Promise.reject(new Error(`moto ended: ${output}`))),
  ]);
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    place: async (places) => {
      await fetch(`${url}/-/places`, { method: 'PUT', body: JSON.stringify(places) });
    },
    state: async () => {
      const response = await fetch(`${url}/-/state`);
      const text = await response.text();
      if (!response.ok) throw new Error(`${text}\n${output.slice(-4_000)}`);
      return JSON.parse(text) as AccountState;
    },
    ask: async (service, target, input) => {
      const authorization = `AWS4-HMAC-SHA256 Credential=${KEYS.accessKeyId}/20260101/${REGION}/${service}/aws4_request`;
      const headers = { authorization, 'x-amz-target': target, 'content-type': 'application/x-amz-json-1.1' };
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(input) });
      if (!response.ok) throw new Error(`${target}: ${await response.text()}`);
      return response.json();
    },
    recorded: async () =>
      (await readFile(record, 'utf8'))
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Recorded),
    output: () => output,
  };
}
