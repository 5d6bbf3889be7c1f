/**
 * CloudFormation and STS in the query protocol for osls, with stacks in memory, and the few calls that osls makes to
 * Lambda and ECR. Any other call is refused and recorded. An operation proceeds when its events are polled, so
 * that the caller first sees it in progress; without polling, only `settle` completes it.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { S3Client } from '@aws-sdk/client-s3';
import { Refusal } from './stack-template.ts';
import { ACCOUNT_ID, type Stack, type StackEvent, Stacks } from './stacks.ts';

export interface LocalCloudFormation {
  readonly url: string;
  /** Calls as `Action` or `METHOD path`, in their order; of every caller with these credentials. */
  readonly calls: readonly string[];
  /** Calls nothing here answers, and those with other credentials. */
  readonly refused: readonly string[];
  /** Undefined if there is no such stack, or no longer. */
  stack(name: string): Stack | undefined;
  outputs(name: string): Readonly<Record<string, string>>;
  /** This resource of this stack cannot be made, until `reason` is undefined. */
  refuse(stackName: string, logicalId: string, reason: string | undefined): void;
  /** Ends what is under way. */
  settle(name: string): Promise<void>;
  close(): Promise<void>;
}

export interface CloudFormationOptions {
  readonly s3: S3Client;
  readonly region: string;
  /** Whose calls are answered. */
  readonly accessKeyId: string;
}

type Fields = Readonly<Record<string, string>>;
type Node = string | number | undefined | readonly Node[] | { readonly [name: string]: Node };
interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

export async function startCloudFormation(options: CloudFormationOptions): Promise<LocalCloudFormation> {
  const refusals = new Map<string, string>();
  const stacks = new Stacks({ ...options, refusal: (stack, id) => refusals.get(`${stack}/${id}`) });
  const repositories = new Set<string>();
  const calls: string[] = [];
  const refused: string[] = [];

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request);
    const call = callOf(request, body);
    const isOurs = request.headers.authorization?.includes(`Credential=${options.accessKeyId}/`) ?? false;
    const answer = isOurs ? (ecrAnswer(repositories, call) ?? (await answerTo(stacks, call))) : undefined;
    (answer ? calls : refused).push(call.name);
    const {
      status,
      type,
      body: content,
    } = answer ?? failed('NotImplemented', `nothing stands for ${call.name}`);
    response.writeHead(status, { 'content-type': type }).end(content);
  };
  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      refused.push(String(error));
      response.writeHead(500).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const find = (name: string) => stacks.all().find((stack) => stack.name === name);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    refused,
    stack: find,
    outputs: (name) => stacks.outputs(stacks.get(name)),
    refuse: (stackName, logicalId, reason) => {
      if (reason === undefined) refusals.delete(`${stackName}/${logicalId}`);
      else refusals.set(`${stackName}/${logicalId}`, reason);
    },
    settle: (name) => proceed(find(name)),
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

interface Call {
  readonly name: string;
  readonly fields: Fields;
}

function callOf(request: IncomingMessage, body: string): Call {
  const target = request.headers['x-amz-target'];
  if (typeof target === 'string') return { name: target, fields: JSON.parse(body || '{}') as Fields };
  const fields = Object.fromEntries(new URLSearchParams(body));
  return { name: fields['Action'] ?? `${request.method} ${request.url}`, fields };
}

/** The repositories of images, of which only the names are kept. */
function ecrAnswer(repositories: Set<string>, { name, fields }: Call): Answer | undefined {
  const { repositoryName = [fields['repositoryNames'] ?? []].flat()[0] ?? '' } = fields;
  const action = name.split('.')[1];
  const repositoryUri = `${ACCOUNT_ID}.dkr.ecr.us-east-1.amazonaws.com/${repositoryName}`;
  if (action === 'CreateRepository') {
    repositories.add(repositoryName);
    return json(200, { repository: { repositoryUri } });
  }
  if (!['DescribeRepositories', 'PutLifecyclePolicy', 'DeleteRepository'].includes(action ?? ''))
    return undefined;
  if (!repositories.has(repositoryName))
    return json(400, { __type: 'RepositoryNotFoundException', message: 'The repository does not exist' });
  if (action === 'DeleteRepository') repositories.delete(repositoryName);
  return json(200, { repositories: [{ repositoryUri }] });
}

async function answerTo(stacks: Stacks, { name, fields }: Call): Promise<Answer | undefined> {
  const [, functionName] = /^GET \/2015-03-31\/functions\/([^/?]+)$/.exec(name) ?? [];
  if (functionName) return functionAnswer(stacks, functionName);
  const action = ACTIONS[name];
  if (!action) return undefined;
  try {
    const result = xml({ [`${name}Result`]: await action(stacks, fields) });
    const content = `<${name}Response>${result}<ResponseMetadata><RequestId>local</RequestId></ResponseMetadata></${name}Response>`;
    return { status: 200, type: 'text/xml', body: content };
  } catch (error) {
    if (error instanceof Refusal) return failed(error.code, error.message);
    throw error;
  }
}

const ACTIONS: Readonly<Record<string, (stacks: Stacks, fields: Fields) => Node | Promise<Node>>> = {
  GetCallerIdentity: () => ({
    Arn: `arn:aws:iam::${ACCOUNT_ID}:user/made-up`,
    UserId: 'AIDAMADEUP',
    Account: ACCOUNT_ID,
  }),
  DescribeStacks: (stacks, { StackName = '' }) => {
    const stack = stacks.get(StackName);
    const Outputs = Object.entries(stacks.outputs(stack)).map(([OutputKey, OutputValue]) => ({
      OutputKey,
      OutputValue,
    }));
    const { id: StackId, name, status: StackStatus, changedAt: CreationTime } = stack;
    return { Stacks: [{ StackId, StackName: name, StackStatus, CreationTime, Outputs }] };
  },
  GetTemplate: (stacks, { StackName = '' }) => ({
    TemplateBody: JSON.stringify(stacks.get(StackName).template ?? {}),
  }),
  DescribeStackEvents: (stacks, { StackName = '' }) => {
    const stack = stacks.get(StackName);
    const StackEvents = stack.events.toReversed().map((event: StackEvent) => ({ ...event }));
    // After the answer: the next look finds it further.
    setImmediate(() => void proceed(stack));
    return { StackEvents };
  },
  DescribeStackResource: (stacks, { StackName = '', LogicalResourceId = '' }) => {
    const { physicalId, type, status } = stacks.resource(StackName, LogicalResourceId);
    return {
      StackResourceDetail: {
        StackName,
        LogicalResourceId,
        PhysicalResourceId: physicalId,
        ResourceType: type,
        ResourceStatus: status,
      },
    };
  },
  ListStackResources: (stacks, { StackName = '' }) => ({
    StackResourceSummaries: [...stacks.get(StackName).resources].map(([LogicalResourceId, resource]) => ({
      LogicalResourceId,
      PhysicalResourceId: resource.physicalId,
      ResourceType: resource.type,
      ResourceStatus: resource.status,
    })),
  }),
  ValidateTemplate: async (stacks, { TemplateBody, TemplateURL }) => {
    await stacks.templateOf(TemplateBody, TemplateURL);
    return {};
  },
  CreateChangeSet: async (stacks, fields) => {
    const { StackName = '', ChangeSetName = '', ChangeSetType, TemplateBody, TemplateURL } = fields;
    const type = ChangeSetType === 'CREATE' ? 'CREATE' : 'UPDATE';
    const request = {
      stackName: StackName,
      name: ChangeSetName,
      type,
      body: TemplateBody,
      url: TemplateURL,
    } as const;
    const { id } = await stacks.createChangeSet(request);
    return { Id: `${id}/${ChangeSetName}`, StackId: id };
  },
  DescribeChangeSet: (stacks, { StackName = '', ChangeSetName = '' }) => {
    const {
      stack,
      changes,
      status: Status,
      reason: StatusReason,
    } = stacks.changeSet(StackName, ChangeSetName);
    const Changes = changes.map((LogicalResourceId) => ({
      Type: 'Resource',
      ResourceChange: { LogicalResourceId },
    }));
    return { StackId: stack.id, StackName, ChangeSetName, Status, StatusReason, Changes };
  },
  DeleteChangeSet: (stacks, { StackName = '', ChangeSetName = '' }) => {
    stacks.get(StackName).changeSets.delete(ChangeSetName);
    return {};
  },
  ExecuteChangeSet: (stacks, { StackName = '', ChangeSetName = '' }) => {
    stacks.execute(StackName, ChangeSetName);
    return {};
  },
  DeleteStack: (stacks, { StackName = '' }) => {
    stacks.delete(StackName);
    return {};
  },
};

/** Resolves when no operation is in progress. */
async function proceed(stack: Stack | undefined): Promise<void> {
  if (!stack) return;
  const { work } = stack;
  stack.work = undefined;
  if (work) stack.running = work();
  await stack.running;
}

function functionAnswer(stacks: Stacks, name: string): Answer {
  const owner = stacks
    .all()
    .find(({ resources }) =>
      [...resources.values()].some(
        ({ type, physicalId, status }) =>
          type === 'AWS::Lambda::Function' &&
          physicalId === name &&
          /^(CREATE|UPDATE)_COMPLETE$/.test(status),
      ),
    );
  if (!owner)
    return json(404, { __type: 'ResourceNotFoundException', Message: `Function not found: ${name}` });
  return json(200, { Configuration: { FunctionName: name, LastModified: owner.changedAt } });
}

function failed(code: string, message: string): Answer {
  const error = xml({ Error: { Type: 'Sender', Code: code, Message: message }, RequestId: 'local' });
  return { status: 400, type: 'text/xml', body: `<ErrorResponse>${error}</ErrorResponse>` };
}

function json(status: number, content: unknown): Answer {
  return { status, type: 'application/json', body: JSON.stringify(content) };
}

function xml(node: Node): string {
  if (node === undefined) return '';
  if (Array.isArray(node)) return node.map((one: Node) => `<member>${xml(one)}</member>`).join('');
  if (typeof node !== 'object') return escaped(String(node));
  return Object.entries(node)
    .filter(([, child]) => child !== undefined)
    .map(([name, child]) => `<${name}>${xml(child)}</${name}>`)
    .join('');
}

function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
