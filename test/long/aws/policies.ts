/** Reads recorded requests as actions on resources, and says which of them a role allows, and which rights nothing used. */
import type { Recorded, Role, Statement } from './moto.ts';

export interface Call {
  /** As in a policy: `s3:GetObject`. */
  readonly action: string;
  /** Its ARN. */
  readonly resource: string;
}

const ACCOUNT = '123456789012';
/** Rights whose names differ from the call's. */
const OF_CALLS: Readonly<Record<string, string>> = {
  'sqs:SendMessageBatch': 'sqs:SendMessage',
  'sqs:DeleteMessageBatch': 'sqs:DeleteMessage',
  'sqs:ChangeMessageVisibilityBatch': 'sqs:ChangeMessageVisibility',
};

/** @throws for a request of a service that nothing here reads */
export function callOf(request: Recorded, region: string): Call {
  const { service, target, body } = request;
  const [, operation = ''] = target.split('.');
  const action = OF_CALLS[`${service}:${operation}`] ?? `${service}:${operation}`;
  const arn = (rest: string) => `arn:aws:${service}:${region}:${ACCOUNT}:${rest}`;
  if (service === 's3') return s3Call(request);
  const fields = JSON.parse(body || '{}') as { QueueUrl?: string; Name?: string };
  if (service === 'sqs') return { action, resource: arn(String(fields.QueueUrl).replace(/^.*\//, '')) };
  if (service === 'ssm') return { action, resource: arn(`parameter${fields.Name}`) };
  throw new Error(`nothing says which right this needs: ${JSON.stringify(request)}`);
}

function s3Call({ method, path }: Recorded): Call {
  const [, bucket = '', ...key] = path.split('/');
  const isObject = key.join('') !== '';
  const resource = `arn:aws:s3:::${isObject ? [bucket, ...key].join('/') : bucket}`;
  const reads = method === 'GET' || method === 'HEAD';
  if (!isObject) return { action: reads ? 's3:ListBucket' : `s3:${method}Bucket`, resource };
  return { action: reads ? 's3:GetObject' : `s3:${method === 'PUT' ? 'Put' : 'Delete'}Object`, resource };
}

/** Calls that no statement of the role allows, or that one denies, each once. */
export function refusedCalls({ Statements }: Role, calls: readonly Call[]): string[] {
  const has = (effect: string, call: Call) =>
    Statements.some(
      (one) => one.Effect === effect && [one.Action].flat().some((action) => fits(one, action, call)),
    );
  const refused = calls.filter((call) => !has('Allow', call) || has('Deny', call));
  return [...new Set(refused.map(({ action, resource }) => `${action} on ${resource}`))];
}

/** Actions of statements, as `Sid action`, that no call made use of. */
export function unusedRights({ Statements }: Role, calls: readonly Call[]): string[] {
  return Statements.filter(({ Effect }) => Effect === 'Allow').flatMap((one) =>
    [one.Action]
      .flat()
      .filter((action) => !calls.some((call) => fits(one, action, call)))
      .map((action) => `${one.Sid} ${action}`),
  );
}

function fits({ Resource }: Statement, action: string, call: Call): boolean {
  return matches(action, call.action) && [Resource].flat().some((pattern) => matches(pattern, call.resource));
}

function matches(pattern: string, text: string): boolean {
  const escaped = pattern.replaceAll(/[.+^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll('*', '.*').replaceAll('?', '.')}$`).test(text);
}
