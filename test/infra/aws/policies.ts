/** Reads recorded requests as actions on resources, and says which of them a role allows, and which rights nothing used. */
import type { Recorded, Role, Statement } from './moto.ts';

/** Of a role, or of who deploys. */
type Rights = Pick<Role, 'Statements'>;

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
  const { service, target, body, path } = request;
  const arn = (rest: string) => `arn:aws:${service}:${region}:${ACCOUNT}:${rest}`;
  const call = (operation: string, rest: string) => {
    const action = `${service}:${operation}`;
    return { action: OF_CALLS[action] ?? action, resource: arn(rest) };
  };
  if (service === 's3') return s3Call(request);
  if (service === 'lambda' && request.method === 'GET')
    return call('GetFunction', `function:${path.split('/')[3]}`);
  if (target !== '') {
    const { QueueUrl, Name } = JSON.parse(body) as { QueueUrl?: string; Name?: string };
    const [, operation = ''] = target.split('.');
    return call(operation, service === 'sqs' ? String(QueueUrl).replace(/^.*\//, '') : `parameter${Name}`);
  }
  const fields = new URLSearchParams(body);
  const name = (fields.get('StackName') ?? '').replace(/^arn:.*:stack\/([^/]+)\/.*$/, '$1');
  if (fields.has('Action')) return call(String(fields.get('Action')), `stack/${name}/an-id`);
  throw new Error(`nothing says which right this needs: ${JSON.stringify(request)}`);
}

function s3Call({ method, path, query }: Recorded): Call {
  const [, bucket = '', ...parts] = path.split('/');
  const key = parts.join('/');
  const call = (operation: string, of: string) => ({
    action: `s3:${operation}`,
    resource: `arn:aws:s3:::${[bucket, ...(of === '' ? [] : [of])].join('/')}`,
  });
  const reads = method === 'GET' || method === 'HEAD';
  if (key !== '') return call(reads ? 'GetObject' : method === 'DELETE' ? 'DeleteObject' : 'PutObject', key);
  if (query.startsWith('delete')) return call('DeleteObject', 'any');
  if (query.startsWith('location')) return call('GetBucketLocation', '');
  return call(query.startsWith('versions') ? 'ListBucketVersions' : reads ? 'ListBucket' : method, '');
}

/** Calls that no statement of the role allows, or that one denies, each once. */
export function refusedCalls({ Statements }: Rights, calls: readonly Call[]): string[] {
  const has = (effect: string, call: Call) =>
    Statements.some(
      (one) => one.Effect === effect && [one.Action].flat().some((action) => fits(one, action, call)),
    );
  const refused = calls.filter((call) => !has('Allow', call) || has('Deny', call));
  return [...new Set(refused.map(({ action, resource }) => `${action} on ${resource}`))];
}

/** Actions of statements, as `Sid action`, that no call made use of. */
export function unusedRights({ Statements }: Rights, calls: readonly Call[]): string[] {
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
