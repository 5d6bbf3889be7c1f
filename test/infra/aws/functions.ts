/**
 * Functions of an emulated account, each in a process of its own with the credentials of its role: under AWS's runtime client
 * in a sandbox (sandbox.sh) where this machine has both, else in a process that Node's permissions restrict.
 */
import { spawnSync } from 'node:child_process';
import { chmod, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startRuntime } from '../../support/runtime-api.ts';
import { extract, readArchive } from '../archive.ts';
import { startArtifact } from '../artifact.ts';
import type { DeployedFunction, Role } from './moto.ts';
import { REGION } from './moto.ts';
import type { Tool } from './tools.ts';

const SANDBOX = fileURLToPath(new URL('sandbox.sh', import.meta.url));
const NODE_INSIDE = '/var/lang/bin/node';
const CERTIFICATE_INSIDE = '/var/lang/ca.pem';

export interface FunctionRequest {
  readonly deployed: DeployedFunction;
  readonly role: Role;
  /** The file that was deployed. */
  readonly archive: string;
  /** A folder of the test's. */
  readonly folder: string;
  /** Of the account. */
  readonly endpoint: string;
  /** Of the Redis. */
  readonly certificate: string;
  readonly client: Tool;
}

export interface RunningFunction {
  readonly name: string;
  invoke(event: unknown): Promise<unknown>;
  /** How many events it has answered. */
  answered(): number;
  output(): string;
  close(): Promise<void>;
}

/** Why no function can run in the sandbox here; undefined where it can. */
export function withoutSandbox(client: Tool): string | undefined {
  if ('missing' in client) return client.missing;
  if (process.getuid?.() !== 0) return 'the sandbox of a function is made by root, and this is another user';
  const tried = spawnSync('unshare', ['--mount', 'true'], { encoding: 'utf8' });
  return tried.status === 0 ? undefined : `this machine has no mount namespaces: ${tried.stderr}`;
}

/** @param parameters of Node */
export function sandboxed(places: SandboxPlaces): readonly string[] {
  const { root, client, task, certificate } = places;
  return [
    'unshare',
    '--mount',
    'sh',
    SANDBOX,
    root,
    process.execPath,
    client,
    task,
    certificate,
    NODE_INSIDE,
  ];
}

export interface SandboxPlaces {
  /** An empty folder. */
  readonly root: string;
  readonly client: string;
  readonly task: string;
  readonly certificate: string;
}

export async function startFunction(request: FunctionRequest): Promise<RunningFunction> {
  const { deployed, client } = request;
  const name = deployed.FunctionName.replace(/^.*-(dev|prod)-/, '');
  const folder = await mkdtemp(join(request.folder, `${name}-`));
  const task = join(folder, 'task');
  await extract(await readArchive(request.archive), task);
  const environment = environmentOf(request);
  if ('missing' in client || withoutSandbox(client) !== undefined) {
    const { certificate } = request;
    const artifact = await startArtifact({
      folder: task,
      handler: deployed.Handler,
      environment: {
        ...environment,
        NODE_EXTRA_CA_CERTS: certificate,
        AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9',
      },
      readable: [certificate],
    });
    return counted({ name, ...artifact });
  }
  await chmod(task, 0o755);
  const root = await mkdtemp(join(folder, 'root-'));
  const places = { root, client: client.folder, task, certificate: request.certificate };
  const runtime = await startRuntime({
    client: '/var/runtime',
    folder: '/var/task',
    handler: deployed.Handler,
    environment: { ...environment, NODE_EXTRA_CA_CERTS: CERTIFICATE_INSIDE },
    within: sandboxed(places),
  });
  return counted({
    name,
    invoke: async (event) => {
      const answer = await runtime.invoke(event, deployed.Timeout * 1_000);
      if (answer.kind === 'response') return answer.value;
      throw new Error(`${name}: ${JSON.stringify(answer)}\n${runtime.output()}`);
    },
    output: () => runtime.output(),
    close: () => runtime.close(),
  });
}

function counted(running: Omit<RunningFunction, 'answered'>): RunningFunction {
  let count = 0;
  const invoke = async (event: unknown) => {
    const answer = await running.invoke(event);
    count++;
    return answer;
  };
  return { ...running, invoke, answered: () => count };
}

function environmentOf({ deployed, role, endpoint }: FunctionRequest): Record<string, string> {
  const { AccessKeyId, SecretAccessKey, SessionToken } = role.Credentials;
  return {
    ...deployed.Environment.Variables,
    AWS_REGION: REGION,
    AWS_DEFAULT_REGION: REGION,
    AWS_ACCESS_KEY_ID: AccessKeyId,
    AWS_SECRET_ACCESS_KEY: SecretAccessKey,
    AWS_SESSION_TOKEN: SessionToken,
    AWS_LAMBDA_FUNCTION_NAME: deployed.FunctionName,
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(deployed.MemorySize),
    // The one thing that is not as on Lambda.
    AWS_ENDPOINT_URL: endpoint,
  };
}
