/**
 * The clients behind infra/account/account.ts: those of the AWS SDK that osls brings along, loaded when a question is asked. EC2
 * and Step Functions are not among them, and have three questions, which are signed here.
 */

import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { callAws, parsed, reasonOf } from '../../lib/aws/call.ts';
import { presign } from '../../lib/codecs/sigv4.ts';
import { domainOf } from '../../lib/contract/aws-address.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { present } from '../../lib/contract/present.ts';
import { type Variables, variables } from '../../lib/contract/variables.ts';
import type { Ask, Service } from './answer.ts';

const CALL_MS = 10_000;
const MAX_ANSWER_BYTES = 1024 * 1024;
const MAX_ATTEMPTS = 2;

type SdkService = Exclude<Service, 'ec2' | 'sfn'>;

const CLIENTS: Readonly<Record<SdkService, readonly [module: string, client: string]>> = {
  sts: ['@aws-sdk/client-sts', 'STSClient'],
  lambda: ['@aws-sdk/client-lambda', 'LambdaClient'],
  cloudformation: ['@aws-sdk/client-cloudformation', 'CloudFormationClient'],
  sqs: ['@aws-sdk/client-sqs', 'SQSClient'],
  s3: ['@aws-sdk/client-s3', 'S3Client'],
  logs: ['@aws-sdk/client-cloudwatch-logs', 'CloudWatchLogsClient'],
  ssm: ['@aws-sdk/client-ssm', 'SSMClient'],
  sns: ['@aws-sdk/client-sns', 'SNSClient'],
  eventbridge: ['@aws-sdk/client-eventbridge', 'EventBridgeClient'],
};

interface Client {
  readonly config: { credentials(): Promise<Credentials> };
  send(command: unknown, options: { readonly abortSignal: AbortSignal }): Promise<unknown>;
  destroy(): void;
}

interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

type Made = new (input: object) => unknown;

/** @param project the folder with serverless.yml, where osls is installed */
export function accountClients(
  region: string,
  project: string,
): { readonly ask: Ask; readonly close: () => void } {
  return clientsOf(moduleLoader(project), { region });
}

/** @param load imports modules of osls. @param config of every client: its region, and credentials where they are not the usual */
export function clientsOf(
  load: (module: string) => Readonly<Record<string, Made | undefined>>,
  config: { readonly region: string },
): { readonly ask: Ask; readonly close: () => void } {
  const { region } = config;
  const clients = new Map<string, Client>();
  const open = (service: SdkService): Client => {
    const [module, name] = CLIENTS[service];
    const client =
      clients.get(service) ??
      (new (present(load(module)[name], name))({ ...config, maxAttempts: MAX_ATTEMPTS }) as Client);
    clients.set(service, client);
    return client;
  };
  return {
    ask: async (service, action, input = {}, limitMs = CALL_MS) => {
      const abortSignal = AbortSignal.timeout(limitMs);
      if (service === 'ec2')
        return askEc2(action, region, await open('sts').config.credentials(), abortSignal);
      if (service === 'sfn')
        return askStepFunctions(action, input, region, await open('sts').config.credentials());
      const command = new (present(load(CLIENTS[service][0])[`${action}Command`], action))(input);
      return open(service).send(command, { abortSignal });
    },
    close: () => {
      for (const client of clients.values()) client.destroy();
    },
  };
}

/** SQS and S3 are our own dependencies, the others those of osls. */
function moduleLoader(project: string): (module: string) => Readonly<Record<string, Made | undefined>> {
  const ours = createRequire(import.meta.url);
  return (module) => {
    try {
      const osls = createRequire(join(project, 'package.json')).resolve('serverless/package.json');
      return createRequire(osls)(module) as Record<string, Made>;
    } catch (error) {
      try {
        return ours(module) as Record<string, Made>;
      } catch {
        throw new ServingError('bad_config', 'serverless is not installed here: npm install', {
          cause: error,
        });
      }
    }
  };
}

async function askEc2(
  Action: string,
  region: string,
  { accessKeyId, secretAccessKey, sessionToken }: Credentials,
  signal: AbortSignal,
): Promise<unknown> {
  const { scheme, host } = ec2Endpoint(region, variables);
  const signed = presign({
    host,
    path: '/',
    query: { Action, Version: '2016-11-15' },
    service: 'ec2',
    region,
    credentials: { accessKeyId, secretAccessKey, sessionToken },
    now: Date.now(),
    lifeSeconds: 60,
    payloadDigest: createHash('sha256').update('').digest('hex'),
  });
  const response = await fetch(`${scheme}//${signed}`, { signal });
  const text = await limitedText(response);
  if (response.ok) return { AvailabilityZones: zonesIn(text), Vpcs: text.match(/<vpcId>/g) };
  const error = new Error(textIn(text, 'Message') ?? `EC2 answered ${response.status}`);
  error.name = textIn(text, 'Code') ?? 'Error';
  throw error;
}

async function askStepFunctions(
  action: string,
  input: object,
  region: string,
  { accessKeyId, secretAccessKey, sessionToken }: Credentials,
): Promise<unknown> {
  const endpoint = variables['AWS_ENDPOINT_URL_SFN'] || variables['AWS_ENDPOINT_URL'] || undefined;
  const place = { region, credentials: { accessKeyId, secretAccessKey, sessionToken }, endpoint };
  const answer = await callAws(place, {
    service: 'states',
    headers: {
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': `AWSStepFunctions.${action}`,
    },
    body: JSON.stringify(input),
    limitMs: CALL_MS,
  });
  if (answer.status === 200) return parsed(answer.text);
  const [name = '', ...message] = reasonOf(answer).split(': ');
  throw Object.assign(new Error(message.join(': ')), { name });
}

function ec2Endpoint(region: string, from: Variables): { readonly scheme: string; readonly host: string } {
  const own = from['AWS_ENDPOINT_URL_EC2'] || from['AWS_ENDPOINT_URL'];
  const { protocol: scheme, host } = new URL(own || `https://ec2.${region}.${domainOf(region)}`);
  return { scheme, host };
}

async function limitedText(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.byteLength;
    if (bytes > MAX_ANSWER_BYTES) throw new Error(`EC2 answered with more than ${MAX_ANSWER_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Reads <item>s whose texts have no elements of the same name inside. */
function zonesIn(xml: string) {
  return xml.split('<item>').flatMap((item) => {
    const ZoneName = textIn(item, 'zoneName');
    return ZoneName === undefined
      ? []
      : [{ ZoneName, State: textIn(item, 'zoneState'), ZoneType: textIn(item, 'zoneType') }];
  });
}

function textIn(xml: string, element: string): string | undefined {
  return new RegExp(`<${element}>([^<]*)</${element}>`).exec(xml)?.[1];
}
