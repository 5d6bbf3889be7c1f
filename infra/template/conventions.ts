/**
 * A company's rules for every resource of an account: a permissions boundary and a path on roles, its own key for stored
 * data, the names of log groups. They are applied to the whole template, including the resources that osls makes.
 */
import { isDeepStrictEqual } from 'node:util';

/** Values of `--param`; an empty text means none. */
export interface Conventions {
  readonly permissionsBoundary: string;
  readonly rolePath: string;
  readonly kmsKey: string;
  readonly logPrefix: string;
  /** The least and the most pollers of the queue that are always there. */
  readonly pollers: readonly number[];
}

type Properties = Record<string, unknown>;

interface Resource {
  readonly Type: string;
  readonly Properties?: Properties;
}

/** Records in it are answered by `batch`; that of dead letters needs no pollers of its own. */
const QUEUE = { 'Fn::GetAtt': ['Queue', 'Arn'] };

type Change = (properties: Properties, conventions: Conventions) => Properties;

const CHANGES: Readonly<Record<string, Change>> = {
  'AWS::IAM::Role': (role, { permissionsBoundary, rolePath, kmsKey }) => ({
    ...(permissionsBoundary && { PermissionsBoundary: permissionsBoundary }),
    ...(rolePath && { Path: rolePath }),
    ...(kmsKey && { Policies: [role['Policies'] ?? [], useOf(kmsKey)].flat() }),
  }),
  'AWS::Logs::LogGroup': ({ LogGroupName }, { kmsKey, logPrefix }) => ({
    ...(kmsKey && { KmsKeyId: kmsKey }),
    ...(logPrefix && { LogGroupName: renamed(String(LogGroupName), logPrefix) }),
  }),
  'AWS::Lambda::Function': ({ FunctionName }, { kmsKey, logPrefix }) => ({
    ...(kmsKey && { KmsKeyArn: kmsKey }),
    ...(logPrefix && {
      LoggingConfig: { LogGroup: renamed(`/aws/lambda/${String(FunctionName)}`, logPrefix) },
    }),
  }),
  'AWS::Lambda::EventSourceMapping': ({ EventSourceArn }, { pollers: [MinimumPollers, MaximumPollers] }) =>
    MinimumPollers !== undefined && isDeepStrictEqual(EventSourceArn, QUEUE)
      ? // Lambda takes one of the two.
        { ProvisionedPollerConfig: { MinimumPollers, MaximumPollers }, ScalingConfig: undefined }
      : {},
  'AWS::SQS::Queue': (_, { kmsKey }) =>
    kmsKey ? { KmsMasterKeyId: kmsKey, SqsManagedSseEnabled: undefined } : {},
  'AWS::S3::Bucket': (_, { kmsKey }) => (kmsKey ? { BucketEncryption: encryptionBy(kmsKey) } : {}),
  'AWS::ElastiCache::ReplicationGroup': (_, { kmsKey }) => (kmsKey ? { KmsKeyId: kmsKey } : {}),
  'AWS::ElastiCache::ServerlessCache': (_, { kmsKey }) => (kmsKey ? { KmsKeyId: kmsKey } : {}),
};

/** Changes the resources of a template in place. */
export function applyConventions(
  resources: Readonly<Record<string, Resource>>,
  conventions: Conventions,
): void {
  for (const { Type, Properties = {} } of Object.values(resources)) {
    const changed = CHANGES[Type]?.(Properties, conventions) ?? {};
    for (const [name, value] of Object.entries(changed)) {
      if (value === undefined) delete Properties[name];
      else Properties[name] = value;
    }
  }
}

/** `/aws/lambda/x` -> `/company/lambda/x` */
function renamed(name: string, prefix: string): string {
  return name.replace(/^\/aws/, () => prefix);
}

function encryptionBy(key: string) {
  const byDefault = { SSEAlgorithm: 'aws:kms', KMSMasterKeyID: key };
  // One call to KMS for many objects.
  return {
    ServerSideEncryptionConfiguration: [{ ServerSideEncryptionByDefault: byDefault, BucketKeyEnabled: true }],
  };
}

function useOf(key: string) {
  const Statement = [
    { Sid: 'UseKey', Effect: 'Allow', Action: ['kms:Decrypt', 'kms:GenerateDataKey'], Resource: key },
  ];
  return { PolicyName: 'key', PolicyDocument: { Version: '2012-10-17', Statement } };
}
