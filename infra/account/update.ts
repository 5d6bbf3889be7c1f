/**
 * What an update does to each resource of a deployed stack: CloudFormation changes it in place, replaces it, which loses the data in
 * it, or refuses. test/infra/aws/lint.aws.test.ts compares the properties below with AWS's own schemas.
 */
import { isDeepStrictEqual } from 'node:util';
import { listed } from '../doctor/rule.ts';
import type { Properties, Template } from '../doctor/template.ts';

interface Kind {
  /** The property with a name that the template may give. CloudFormation makes the new resource first, so a given name stays taken. */
  readonly name?: string;
  /** A change of one of these replaces the resource. */
  readonly fixed?: string;
  /** The data that are lost with it. */
  readonly data?: string;
}

/** Every type of our templates. */
export const KINDS: Readonly<Record<string, Kind>> = {
  'AWS::ApiGatewayV2::Api': { fixed: 'ProtocolType', data: 'the address of the API' },
  'AWS::ApiGatewayV2::ApiMapping': { fixed: 'DomainName' },
  'AWS::ApiGatewayV2::Authorizer': { fixed: 'ApiId' },
  'AWS::ApiGatewayV2::DomainName': { name: 'DomainName' },
  'AWS::ApiGatewayV2::Integration': { fixed: 'ApiId' },
  'AWS::ApiGatewayV2::Route': { fixed: 'ApiId' },
  'AWS::ApiGatewayV2::Stage': { name: 'StageName', fixed: 'ApiId' },
  'AWS::CloudWatch::Alarm': { name: 'AlarmName' },
  'AWS::CloudWatch::Dashboard': { name: 'DashboardName' },
  'AWS::EC2::RouteTable': { fixed: 'VpcId' },
  'AWS::DynamoDB::Table': { name: 'TableName', fixed: 'KeySchema', data: 'results' },
  'AWS::EC2::SecurityGroup': { name: 'GroupName', fixed: 'GroupDescription VpcId' },
  'AWS::EC2::SecurityGroupEgress': {
    fixed:
      'IpProtocol DestinationSecurityGroupId ToPort CidrIp FromPort GroupId CidrIpv6 DestinationPrefixListId',
  },
  'AWS::EC2::SecurityGroupIngress': {
    fixed:
      'GroupName IpProtocol SourceSecurityGroupId SourcePrefixListId ToPort CidrIp SourceSecurityGroupName SourceSecurityGroupOwnerId FromPort GroupId CidrIpv6',
  },
  'AWS::EC2::Subnet': {
    fixed:
      'VpcId AvailabilityZone AvailabilityZoneId CidrBlock OutpostArn Ipv6Native Ipv4IpamPoolId Ipv4NetmaskLength Ipv6IpamPoolId Ipv6NetmaskLength',
  },
  'AWS::EC2::SubnetRouteTableAssociation': { fixed: 'SubnetId RouteTableId' },
  'AWS::EC2::VPC': { fixed: 'CidrBlock Ipv4IpamPoolId Ipv4NetmaskLength VpcEncryptionControl' },
  'AWS::EC2::VPCEndpoint': {
    fixed: 'ServiceName VpcEndpointType VpcId ServiceNetworkArn ResourceConfigurationArn ServiceRegion',
  },
  'AWS::ElastiCache::ParameterGroup': { fixed: 'CacheParameterGroupFamily' },
  'AWS::ElastiCache::ReplicationGroup': {
    name: 'ReplicationGroupId',
    fixed:
      'AtRestEncryptionEnabled CacheSubnetGroupName DataTieringEnabled GlobalReplicationGroupId KmsKeyId NetworkType Port PreferredCacheClusterAZs SnapshotArns SnapshotName',
    data: 'results',
  },
  'AWS::ElastiCache::ServerlessCache': {
    name: 'ServerlessCacheName',
    fixed: 'KmsKeyId SnapshotArnsToRestore SubnetIds NetworkType ConnectionType',
    data: 'results',
  },
  'AWS::ElastiCache::SubnetGroup': { name: 'CacheSubnetGroupName' },
  'AWS::ElastiCache::User': { name: 'UserId', fixed: 'UserName' },
  'AWS::ElastiCache::UserGroup': { name: 'UserGroupId' },
  'AWS::IAM::Policy': {},
  'AWS::IAM::Role': { name: 'RoleName', fixed: 'Path' },
  'AWS::Lambda::Alias': { name: 'Name', fixed: 'FunctionName' },
  'AWS::Lambda::EventSourceMapping': {
    fixed: 'EventSourceArn StartingPosition StartingPositionTimestamp SelfManagedEventSource',
  },
  'AWS::Lambda::Function': { name: 'FunctionName', fixed: 'PackageType TenancyConfig' },
  'AWS::Lambda::Permission': {
    fixed:
      'FunctionName FunctionUrlAuthType InvokedViaFunctionUrl SourceAccount SourceArn Principal PrincipalOrgID Action EventSourceToken',
  },
  'AWS::Lambda::Version': {
    fixed: 'FunctionName Description CodeSha256 ProvisionedConcurrencyConfig RuntimePolicy',
  },
  'AWS::Logs::LogGroup': { name: 'LogGroupName', data: 'logs' },
  'AWS::S3::Bucket': {
    name: 'BucketName',
    fixed: 'BucketNamePrefix BucketNamespace',
    data: 'models and dead letters',
  },
  'AWS::S3::BucketPolicy': { fixed: 'Bucket' },
  'AWS::Events::Rule': { name: 'Name', fixed: 'EventBusName' },
  'AWS::SNS::Subscription': { fixed: 'Endpoint Protocol TopicArn' },
  'AWS::SNS::Topic': { name: 'TopicName', fixed: 'FifoTopic', data: 'subscriptions' },
  'AWS::SNS::TopicPolicy': {},
  'AWS::SQS::Queue': { name: 'QueueName', fixed: 'FifoQueue', data: 'queued records' },
  'AWS::SQS::QueuePolicy': {},
};

type Resource = Template['Resources'][string];

interface Update {
  /** Names of resources. */
  readonly inPlace: readonly string[];
  readonly added: readonly string[];
  readonly replaced: readonly string[];
  readonly removed: readonly string[];
  /** Each with its property: `RedisServerless (SubnetIds)`. */
  readonly refused: readonly string[];
  /** Those that are replaced or removed, with the data that are lost: `RedisServerless (results)`. */
  readonly lost: readonly string[];
}

/** @param before the deployed template. A replacement's effect on other resources that refer to it is not followed. */
export function updateOf(before: Template, after: Template): Update {
  const update: Record<keyof Update, string[]> = {
    inPlace: [],
    added: [],
    replaced: [],
    removed: [],
    refused: [],
    lost: [],
  };
  const lose = (name: string, { Type }: Resource, policy = 'Delete') => {
    const { data } = KINDS[Type] ?? {};
    // A kept one is out of the stack, which begins with an empty one.
    const kept = policy === 'Delete' ? '' : ', of which a copy is kept';
    if (data !== undefined) update.lost.push(`${name} (${data}${kept})`);
  };
  for (const [name, now] of Object.entries(after.Resources)) {
    const was = before.Resources[name];
    if (was === undefined) update.added.push(name);
    else if (was.Type !== now.Type) update.refused.push(`${name} (its type)`);
    else if (!isDeepStrictEqual(was.Properties, now.Properties)) {
      const [fate, property] = fateOf(now.Type, was.Properties ?? {}, now.Properties ?? {});
      if (fate === 'refused') update.refused.push(`${name} (${property})`);
      else update[fate].push(name);
      if (fate === 'replaced') lose(name, was, was.UpdateReplacePolicy);
    }
  }
  for (const [name, was] of Object.entries(before.Resources)) {
    if (name in after.Resources) continue;
    update.removed.push(name);
    lose(name, was, was.DeletionPolicy);
  }
  return update;
}

function fateOf(
  type: string,
  was: Properties,
  now: Properties,
): readonly ['inPlace' | 'replaced' | 'refused', string] {
  const { name, fixed = '' } = KINDS[type] ?? {};
  const isChanged = (property: string) => !isDeepStrictEqual(was[property], now[property]);
  if (name !== undefined && isChanged(name)) return ['replaced', name];
  const property = fixed.split(' ').find(isChanged);
  if (property === undefined) return ['inPlace', ''];
  return [name !== undefined && now[name] !== undefined ? 'refused' : 'replaced', property];
}

/** One line: `in place 6; new 1 (A); replaced 1 (B)`. */
function updateText({ inPlace, added, replaced, removed }: Update): string {
  const parts = [
    ['new', added],
    ['replaced', replaced],
    ['removed', removed],
  ] as const;
  const named = parts.flatMap(([what, names]) =>
    names.length === 0 ? [] : [`${what} ${names.length} (${listed(names)})`],
  );
  return [`in place ${inPlace.length}`, ...named].join('; ');
}

/** Says how a deployment of the packaged template would change the stack. */
export function updateAnswer(
  deployed: Template,
  packaged: Template | undefined,
): { readonly kind: 'ok' | 'note' | 'warning' | 'error'; readonly found: string; readonly fix?: string } {
  if (!packaged) {
    const fix = 'npx serverless package, or doctor --package-now';
    return { kind: 'note', found: 'nothing is packaged to compare with', fix };
  }
  const update = updateOf(deployed, packaged);
  const found = updateText(update);
  if (update.refused.length > 0)
    return {
      kind: 'error',
      found: `CloudFormation refuses to change ${listed(update.refused)}; ${found}`,
      fix: 'keep the parameters that decide it, or deploy another --stage',
    };
  if (update.lost.length > 0)
    return {
      kind: 'warning',
      found: `lost: ${listed(update.lost)}; ${found}`,
      fix: 'first take what you need of it, or keep the parameters that decide it',
    };
  return { kind: 'ok', found };
}
