/**
 * The actions that CloudFormation needs to create, read, update and delete a resource of each type in infra/stack/ and
 * of osls, with the tag `STAGE` that osls adds. A new type in the template needs an entry here;
 * test/infra/idle-price.system.test.ts finds a missing one.
 */
export interface Rights {
  /** As in an action: `lambda`. */
  readonly service: string;
  /** Names of actions, without the service, with a space between. */
  readonly actions: string;
  /** A key of the scopes in infra/template/deployer-policy.ts. `any` where AWS knows no resource, or chooses its id. */
  readonly on: string;
  readonly condition?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

const of = (service: string, on: string, actions: string): Rights => ({ service, on, actions });

/** EC2 chooses all ids, and most of its actions check resources that the caller does not name. */
const ec2 = (actions: string): readonly Rights[] => [of('ec2', 'any', `${actions} CreateTags`)];

const linkedRole = (service: string): Rights => ({
  ...of('iam', 'linked', 'CreateServiceLinkedRole'),
  condition: { StringEquals: { 'iam:AWSServiceName': service } },
});

const api: readonly Rights[] = [of('apigateway', 'api', 'DELETE GET PATCH POST PUT TagResource')];

const roles: readonly Rights[] = [
  of(
    'iam',
    'roles',
    'CreateRole DeleteRole DeleteRolePolicy GetRole GetRolePolicy ListAttachedRolePolicies ListRolePolicies PutRolePolicy TagRole UpdateAssumeRolePolicy UpdateRole',
  ),
  {
    ...of('iam', 'roles', 'PassRole'),
    condition: { StringEquals: { 'iam:PassedToService': 'lambda.amazonaws.com' } },
  },
];

const cache = (actions: string): readonly Rights[] => [
  of('elasticache', 'cache', `${actions} AddTagsToResource ListTagsForResource`),
];

/** A function in a VPC is created by who may look at subnets and security groups. */
const functions: readonly Rights[] = [
  of(
    'lambda',
    'lambda',
    'CreateFunction DeleteFunction DeleteFunctionConcurrency GetFunction GetFunctionCodeSigningConfig GetFunctionConfiguration GetFunctionRecursionConfig GetRuntimeManagementConfig ListTags PutFunctionConcurrency TagResource UpdateFunctionCode UpdateFunctionConfiguration',
  ),
  ...ec2('DescribeSecurityGroups DescribeSubnets DescribeVpcs'),
];

/** The access log of an HTTP API: the delivery is set up by who creates the stage, and has no resource. */
const logDelivery: readonly Rights[] = [
  of(
    'logs',
    'any',
    'CreateLogDelivery DeleteLogDelivery DescribeLogGroups DescribeResourcePolicies GetLogDelivery ListLogDeliveries PutResourcePolicy UpdateLogDelivery',
  ),
  linkedRole('ops.apigateway.amazonaws.com'),
];

export const RIGHTS_OF_TYPES: Readonly<Record<string, readonly Rights[] | undefined>> = {
  'AWS::ApiGatewayV2::Api': api,
  'AWS::ApiGatewayV2::ApiMapping': api,
  'AWS::ApiGatewayV2::Authorizer': api,
  'AWS::ApiGatewayV2::DomainName': api,
  'AWS::ApiGatewayV2::Integration': api,
  'AWS::ApiGatewayV2::Route': api,
  'AWS::ApiGatewayV2::Stage': [...api, ...logDelivery],
  'AWS::Budgets::Budget': [of('budgets', 'any', 'ListTagsForResource ModifyBudget ViewBudget')],
  'AWS::CloudWatch::Alarm': [
    of('cloudwatch', 'any', 'DescribeAlarms'),
    of('cloudwatch', 'alarms', 'DeleteAlarms ListTagsForResource PutMetricAlarm TagResource'),
  ],
  'AWS::CloudWatch::Dashboard': [of('cloudwatch', 'alarms', 'DeleteDashboards GetDashboard PutDashboard')],
  'AWS::EC2::RouteTable': ec2('CreateRouteTable DeleteRouteTable DescribeRouteTables'),
  'AWS::EC2::SecurityGroup': ec2(
    'AuthorizeSecurityGroupEgress AuthorizeSecurityGroupIngress CreateSecurityGroup DeleteSecurityGroup DescribeNetworkInterfaces DescribeSecurityGroups RevokeSecurityGroupEgress RevokeSecurityGroupIngress',
  ),
  'AWS::EC2::SecurityGroupEgress': ec2(
    'AuthorizeSecurityGroupEgress DescribeSecurityGroupRules RevokeSecurityGroupEgress UpdateSecurityGroupRuleDescriptionsEgress',
  ),
  'AWS::EC2::SecurityGroupIngress': ec2(
    'AuthorizeSecurityGroupIngress DescribeSecurityGroupRules RevokeSecurityGroupIngress UpdateSecurityGroupRuleDescriptionsIngress',
  ),
  'AWS::DynamoDB::Table': [
    of(
      'dynamodb',
      'tables',
      'CreateTable DeleteTable DescribeContinuousBackups DescribeContributorInsights DescribeKinesisStreamingDestination DescribeTable DescribeTimeToLive GetResourcePolicy ListTagsOfResource TagResource UntagResource UpdateContinuousBackups UpdateContributorInsights UpdateTable UpdateTimeToLive',
    ),
  ],
  'AWS::EC2::Subnet': ec2(
    'CreateSubnet DeleteSubnet DescribeAvailabilityZones DescribeSubnets ModifySubnetAttribute',
  ),
  'AWS::EC2::SubnetRouteTableAssociation': ec2(
    'AssociateRouteTable DescribeRouteTables DisassociateRouteTable',
  ),
  'AWS::EC2::VPC': ec2(
    'CreateVpc DeleteVpc DescribeNetworkAcls DescribeRouteTables DescribeSecurityGroups DescribeVpcAttribute DescribeVpcs ModifyVpcAttribute',
  ),
  'AWS::EC2::VPCEndpoint': ec2('CreateVpcEndpoint DeleteVpcEndpoints DescribeVpcEndpoints ModifyVpcEndpoint'),
  'AWS::ElastiCache::ParameterGroup': cache(
    'CreateCacheParameterGroup DeleteCacheParameterGroup DescribeCacheParameterGroups DescribeCacheParameters DescribeEngineDefaultParameters ModifyCacheParameterGroup',
  ),
  'AWS::ElastiCache::ReplicationGroup': [
    ...cache(
      'CreateReplicationGroup CreateSnapshot DecreaseReplicaCount DeleteReplicationGroup DescribeCacheClusters DescribeEvents DescribeReplicationGroups DescribeSnapshots IncreaseReplicaCount ModifyReplicationGroup',
    ),
    linkedRole('elasticache.amazonaws.com'),
  ],
  'AWS::ElastiCache::ServerlessCache': [
    ...cache(
      'CreateServerlessCache CreateServerlessCacheSnapshot DeleteServerlessCache DescribeServerlessCaches ModifyServerlessCache',
    ),
    // ElastiCache makes the endpoints of a serverless cache in the subnets.
    ...ec2('CreateVpcEndpoint DescribeSecurityGroups DescribeSubnets DescribeVpcEndpoints DescribeVpcs'),
    linkedRole('elasticache.amazonaws.com'),
  ],
  'AWS::ElastiCache::SubnetGroup': cache(
    'CreateCacheSubnetGroup DeleteCacheSubnetGroup DescribeCacheSubnetGroups ModifyCacheSubnetGroup',
  ),
  'AWS::ElastiCache::User': cache('CreateUser DeleteUser DescribeUsers ModifyUser'),
  'AWS::ElastiCache::UserGroup': cache('CreateUserGroup DeleteUserGroup DescribeUserGroups ModifyUserGroup'),
  'AWS::Events::Rule': [
    of(
      'events',
      'rules',
      'DeleteRule DescribeRule ListTagsForResource ListTargetsByRule PutRule PutTargets RemoveTargets TagResource',
    ),
  ],
  'AWS::IAM::Policy': [of('iam', 'roles', 'DeleteRolePolicy GetRolePolicy ListRolePolicies PutRolePolicy')],
  'AWS::IAM::Role': roles,
  'AWS::Lambda::Alias': [
    of(
      'lambda',
      'lambda',
      'CreateAlias DeleteAlias DeleteProvisionedConcurrencyConfig GetAlias GetProvisionedConcurrencyConfig PutProvisionedConcurrencyConfig UpdateAlias',
    ),
  ],
  'AWS::Lambda::EventSourceMapping': [
    of(
      'lambda',
      'any',
      'CreateEventSourceMapping DeleteEventSourceMapping GetEventSourceMapping ListEventSourceMappings UpdateEventSourceMapping',
    ),
  ],
  'AWS::Lambda::Function': functions,
  'AWS::Lambda::Permission': [of('lambda', 'lambda', 'AddPermission GetPolicy RemovePermission')],
  'AWS::Lambda::Version': [
    of('lambda', 'lambda', 'DeleteFunction GetFunctionConfiguration ListVersionsByFunction PublishVersion'),
  ],
  'AWS::Logs::LogGroup': [
    of('logs', 'any', 'DescribeLogGroups'),
    of(
      'logs',
      'logs',
      'CreateLogGroup DeleteLogGroup DeleteRetentionPolicy ListTagsForResource PutRetentionPolicy TagResource',
    ),
  ],
  'AWS::S3::Bucket': [
    of(
      's3',
      'buckets',
      'CreateBucket DeleteBucket GetBucketCORS GetBucketNotification GetBucketOwnershipControls GetBucketPublicAccessBlock GetBucketTagging GetEncryptionConfiguration GetLifecycleConfiguration PutBucketCORS PutBucketNotification PutBucketOwnershipControls PutBucketPublicAccessBlock PutBucketTagging PutEncryptionConfiguration PutLifecycleConfiguration',
    ),
    // Lambda reads the archives as the one who creates the function.
    of('s3', 'buckets', 'GetObject'),
  ],
  'AWS::S3::BucketPolicy': [of('s3', 'buckets', 'DeleteBucketPolicy GetBucketPolicy PutBucketPolicy')],
  'AWS::SNS::Subscription': [
    of('sns', 'topics', 'GetSubscriptionAttributes ListSubscriptionsByTopic Subscribe Unsubscribe'),
  ],
  'AWS::SNS::Topic': [
    of(
      'sns',
      'topics',
      'CreateTopic DeleteTopic GetDataProtectionPolicy GetTopicAttributes ListSubscriptionsByTopic ListTagsForResource SetTopicAttributes TagResource',
    ),
  ],
  'AWS::SNS::TopicPolicy': [of('sns', 'topics', 'GetTopicAttributes SetTopicAttributes')],
  'AWS::SQS::Queue': [
    of(
      'sqs',
      'queues',
      'CreateQueue DeleteQueue GetQueueAttributes GetQueueUrl ListQueueTags SetQueueAttributes TagQueue',
    ),
  ],
  'AWS::SQS::QueuePolicy': [of('sqs', 'queues', 'GetQueueAttributes SetQueueAttributes')],
};
