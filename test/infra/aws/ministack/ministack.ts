/**
 * An emulated AWS account at AWS's own addresses: MiniStack behind TLS, to be started in the namespace of namespace.sh only, since
 * it listens on every address. It is independent of moto, runs the functions itself and checks signatures and policies.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { signedHeaders } from '../../../../lib/codecs/sigv4.ts';
import { type Hooks, temporaryFolder } from '../../../support/runner.ts';
import { KEYS, SIGNED_ENVIRONMENT, SIGNED_REGION } from '../../../support/signed-api.ts';
import { until } from '../../../support/until.ts';
import { startNames } from './names.ts';

const ACCOUNT = fileURLToPath(new URL('account.py', import.meta.url));
const DOMAIN = 'amazonaws.com';
const REGIONAL = `${SIGNED_REGION}.${DOMAIN}`;
/** Hosts below these are called by clients. */
const CERTIFIED = [DOMAIN, REGIONAL, ...['ecr', 's3', 'execute-api'].map((one) => `${one}.${REGIONAL}`)];
const START_MS = 120_000;

export interface MiniStackOptions {
  /** The folder with python. */
  readonly tools: string;
  /** The Redis that stands for every serverless cache. */
  readonly redisPort: number;
  /** Its certificate. */
  readonly certificate: string;
}

export interface MiniStack {
  /** For clients and for `serverless`: keys and trusted certificates, but no endpoint. */
  readonly environment: Readonly<Record<string, string>>;
  /** One signed call of a service with the JSON protocol. */
  ask(service: string, target: string, input: unknown): Promise<unknown>;
  /** Its log so far. */
  output(): string;
}

export async function startMiniStack(t: Hooks, options: MiniStackOptions): Promise<MiniStack> {
  const folder = await temporaryFolder(t, 'cluster-serving-ministack-');
  const gateway = makeGatewayCertificate(folder);
  const trusted = join(folder, 'trusted.pem');
  await writeFile(trusted, await readFile(gateway.certificate));
  await appendFile(trusted, await readFile(options.certificate));
  setDefaultCACertificates([...getCACertificates('default'), await readFile(gateway.certificate, 'utf8')]);
  await startNames(t, DOMAIN);
  const env = {
    PATH: `${dirname(process.execPath)}:${process.env['PATH']}`,
    TMPDIR: folder,
    HOME: folder,
    AUTH: 'true',
    GATEWAY_PORT: '4566',
    IOT_MTLS_ENABLED: '0',
    SFTP_ENABLED: '0',
    USE_SSL: '1',
    MINISTACK_SSL_CERT: gateway.certificate,
    MINISTACK_SSL_KEY: gateway.key,
    MINISTACK_HOST: REGIONAL,
    MINISTACK_REGION: SIGNED_REGION,
    REDIS_HOST: 'localhost',
    REDIS_PORT: String(options.redisPort),
    // Its functions inherit it.
    NODE_EXTRA_CA_CERTS: trusted,
    // Empty: else it would give them its own.
    AWS_ENDPOINT_URL: '',
    AWS_ACCESS_KEY_ID: KEYS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: KEYS.secretAccessKey,
    AWS_SESSION_TOKEN: String(KEYS.sessionToken),
  };
  const child = spawn(join(options.tools, 'python'), [ACCOUNT], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
  const exit = once(child, 'exit');
  t.after(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const isReady = () => {
    if (child.exitCode !== null) throw new Error(`MiniStack ended: ${output}`);
    return fetch(`https://${REGIONAL}/_ministack/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  };
  await until(isReady, START_MS);
  return {
    environment: { ...SIGNED_ENVIRONMENT, NODE_EXTRA_CA_CERTS: trusted },
    ask,
    output: () => output,
  };
}

async function ask(service: string, target: string, input: unknown): Promise<unknown> {
  const host = `${service}.${REGIONAL}`;
  const body = JSON.stringify(input);
  const headers = signedHeaders({
    method: 'POST',
    path: '/',
    host,
    service,
    region: SIGNED_REGION,
    headers: { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': target },
    body,
    credentials: { ...KEYS, sessionToken: KEYS.sessionToken },
    now: Date.now(),
  });
  const response = await fetch(`https://${host}/`, { method: 'POST', headers, body });
  if (!response.ok) throw new Error(`${target}: ${await response.text()}`);
  return response.json();
}

function makeGatewayCertificate(folder: string): { certificate: string; key: string } {
  const [certificate, key] = [join(folder, 'gateway.pem'), join(folder, 'gateway.key')];
  const names = CERTIFIED.flatMap((name) => [`DNS:${name}`, `DNS:*.${name}`]).join();
  const options = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=${DOMAIN}`;
  const files = ['-addext', `subjectAltName=${names}`, '-keyout', key, '-out', certificate];
  const made = spawnSync('openssl', [...options.split(' '), ...files], { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(made.stderr);
  return { certificate, key };
}
