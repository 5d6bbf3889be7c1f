/** The resources that osls makes of the provider and the functions of a serverless.yml, as far as this project uses it. */
import type { Resource, Template } from '../support/template.ts';

export type Tree = Readonly<Record<string, unknown>>;

type Resources = Template['Resources'];
interface Event {
  readonly httpApi?: Tree;
  readonly sqs?: Tree;
}
interface Entry extends Tree {
  readonly image?: Tree;
  readonly dependsOn?: readonly string[];
  readonly vpc?: Tree;
  readonly events: readonly Event[];
}

/** A serverless.yml whose variables have values. */
export interface Composed {
  readonly service: string;
  readonly provider: Tree;
  readonly functions: Readonly<Record<string, Entry>>;
  readonly resources: unknown;
  readonly [key: string]: unknown;
}

interface Service extends Pick<Composed, 'service' | 'provider'> {
  readonly stage: string;
}

const DOMAIN = ['.execute-api.', { Ref: 'AWS::Region' }, '.', { Ref: 'AWS::URLSuffix' }];

export const OUTPUTS_OF_OSLS: Template['Outputs'] = {
  ServerlessDeploymentBucketName: { Value: { Ref: 'ServerlessDeploymentBucket' } },
  HttpApiId: { Value: { Ref: 'HttpApi' } },
  HttpApiUrl: { Value: { 'Fn::Join': ['', ['https://', { Ref: 'HttpApi' }, ...DOMAIN]] } },
};

export function resourcesOfOsls({ service, provider, functions }: Composed): Resources {
  const own: Service = { service, provider, stage: String(provider['stage']) };
  const parts = Object.entries(functions).map(([name, entry]) => ({
    ...functionOf(name, entry, own),
    ...aliasOf(name, entry),
    ...mappingsOf(name, entry),
    ...routesOf(name, entry),
  }));
  return Object.assign(deploymentBucket(provider), httpApi(own), ...parts) as Resources;
}

function deploymentBucket({ deploymentBucket: bucket }: Tree): Resources {
  const { blockPublicAccess, serverSideEncryption } = bucket as Tree;
  const access = Object.fromEntries(
    ['BlockPublicAcls', 'BlockPublicPolicy', 'IgnorePublicAcls', 'RestrictPublicBuckets'].map((name) => [
      name,
      true,
    ]),
  );
  const encryption = { ServerSideEncryptionByDefault: { SSEAlgorithm: serverSideEncryption } };
  return {
    ServerlessDeploymentBucket: {
      Type: 'AWS::S3::Bucket',
      Properties: {
        BucketEncryption: { ServerSideEncryptionConfiguration: [encryption] },
        ...(blockPublicAccess === true && { PublicAccessBlockConfiguration: access }),
      },
    },
    ServerlessDeploymentBucketPolicy: {
      Type: 'AWS::S3::BucketPolicy',
      Properties: {
        Bucket: { Ref: 'ServerlessDeploymentBucket' },
        PolicyDocument: {
          Statement: [{ Effect: 'Deny', Condition: { Bool: { 'aws:SecureTransport': false } } }],
        },
      },
    },
  };
}

function httpApi({ service, stage, provider }: Service): Resources {
  const { cors, authorizers } = provider['httpApi'] as { cors: Tree | false; authorizers: Tree };
  const { httpApi: log } = provider['logs'] as { httpApi?: Tree };
  const rules = cors === false ? {} : { CorsConfiguration: corsOf(cors) };
  const format = { DestinationArn: { 'Fn::GetAtt': ['HttpApiLogGroup', 'Arn'] }, Format: log?.['format'] };
  return {
    HttpApi: {
      Type: 'AWS::ApiGatewayV2::Api',
      Properties: { Name: `${stage}-${service}`, ProtocolType: 'HTTP', ...rules },
    },
    ...(log && {
      HttpApiLogGroup: logGroup(`/aws/http-api/${service}-${stage}`, provider),
    }),
    HttpApiStage: {
      Type: 'AWS::ApiGatewayV2::Stage',
      Properties: {
        ApiId: { Ref: 'HttpApi' },
        StageName: '$default',
        AutoDeploy: true,
        ...(log && { AccessLogSettings: format }),
      },
    },
    ...Object.fromEntries(
      Object.entries(authorizers).map(([name, one]) => {
        const { identitySource, issuerUrl, audience } = one as Tree;
        const Properties = {
          ApiId: { Ref: 'HttpApi' },
          Name: name,
          IdentitySource: [identitySource].flat(),
          AuthorizerType: 'JWT',
          JwtConfiguration: { Audience: [audience].flat(), Issuer: issuerUrl },
        };
        return [`HttpApiAuthorizer${capital(name)}`, { Type: 'AWS::ApiGatewayV2::Authorizer', Properties }];
      }),
    ),
  };
}

function corsOf(cors: Tree): Tree {
  const { allowedOrigins, allowedHeaders, allowedMethods, exposedResponseHeaders, maxAge } = cors;
  return {
    AllowHeaders: allowedHeaders,
    AllowMethods: allowedMethods,
    AllowOrigins: allowedOrigins,
    ExposeHeaders: exposedResponseHeaders,
    MaxAge: maxAge,
  };
}

const capital = (name: string) => `${name.charAt(0).toUpperCase()}${name.slice(1)}`;

/** `dead-letter` -> DeadDashletter */
const logical = (name: string) => capital(name.replaceAll('-', 'Dash'));

function logGroup(name: string, { logRetentionInDays }: Tree): Resource {
  return {
    Type: 'AWS::Logs::LogGroup',
    Properties: {
      LogGroupName: name,
      ...(logRetentionInDays !== undefined && { RetentionInDays: logRetentionInDays }),
    },
  };
}

function functionOf(name: string, entry: Entry, { service, stage, provider }: Service): Resources {
  const FunctionName = entry['name'] ?? `${service}-${stage}-${name}`;
  const code = entry.image
    ? {
        Code: { ImageUri: entry.image['uri'] },
        PackageType: 'Image',
        ImageConfig: { Command: entry.image['command'] },
      }
    : {
        Code: { S3Bucket: { Ref: 'ServerlessDeploymentBucket' }, S3Key: `serverless/${name}.zip` },
        Handler: entry['handler'],
        Runtime: provider['runtime'],
      };
  const { environment, vpc, ephemeralStorageSize: size } = entry;
  return {
    [`${logical(name)}LogGroup`]: logGroup(`/aws/lambda/${FunctionName as string}`, provider),
    [`${logical(name)}LambdaFunction`]: {
      Type: 'AWS::Lambda::Function',
      Properties: {
        ...code,
        FunctionName,
        Description: entry['description'],
        // osls's own defaults are 1024 MB and 6 s.
        MemorySize: entry['memorySize'] ?? provider['memorySize'] ?? 1024,
        Timeout: entry['timeout'] ?? 6,
        Architectures: [provider['architecture']],
        Role: { 'Fn::GetAtt': [entry['role'] ?? 'IamRoleLambdaExecution', 'Arn'] },
        TracingConfig: { Mode: (provider['tracing'] as Tree)['lambda'] },
        ...(size !== undefined && { EphemeralStorage: { Size: size } }),
        ...(environment !== undefined && { Environment: { Variables: environment } }),
        ...(vpc && {
          VpcConfig: { SecurityGroupIds: vpc['securityGroupIds'], SubnetIds: vpc['subnetIds'] },
        }),
      },
      DependsOn: [`${logical(name)}LogGroup`, ...(entry.dependsOn ?? []), entry['role'] as string],
    },
  };
}

/** A caller of a function with provisioned concurrency calls its alias. */
const isProvisioned = ({ provisionedConcurrency: count }: Entry) => Number(count ?? 0) > 0;

function targetOf(name: string, entry: Entry) {
  const whole = { 'Fn::GetAtt': [`${logical(name)}LambdaFunction`, 'Arn'] };
  return isProvisioned(entry) ? { 'Fn::Join': [':', [whole, 'provisioned']] } : whole;
}

function aliasOf(name: string, entry: Entry): Resources {
  if (!isProvisioned(entry)) return {};
  const config = { ProvisionedConcurrentExecutions: entry['provisionedConcurrency'] };
  return {
    [`${logical(name)}ProvConcLambdaAlias`]: {
      Type: 'AWS::Lambda::Alias',
      Properties: {
        FunctionName: { Ref: `${logical(name)}LambdaFunction` },
        Name: 'provisioned',
        ProvisionedConcurrencyConfig: config,
      },
    },
  };
}

function mappingsOf(name: string, entry: Entry): Resources {
  const queues = entry.events.flatMap(({ sqs }) => (sqs ? [sqs] : []));
  return Object.fromEntries(
    queues.map((sqs) => {
      const [queue] = (sqs['arn'] as { 'Fn::GetAtt': readonly string[] })['Fn::GetAtt'];
      const { functionResponseType: type, maximumConcurrency: most, maximumBatchingWindow: window } = sqs;
      const Properties = {
        EventSourceArn: sqs['arn'],
        FunctionName: targetOf(name, entry),
        BatchSize: sqs['batchSize'] ?? 10,
        Enabled: true,
        ...(window !== undefined && { MaximumBatchingWindowInSeconds: window }),
        ...(type !== undefined && { FunctionResponseTypes: [type] }),
        ...(most !== undefined && { ScalingConfig: { MaximumConcurrency: most } }),
      };
      const key = `${logical(name)}EventSourceMappingSQS${queue}`;
      return [key, { Type: 'AWS::Lambda::EventSourceMapping', Properties }];
    }),
  );
}

function routesOf(name: string, entry: Entry): Resources {
  const routes = entry.events.flatMap(({ httpApi: route }) => (route ? [route] : []));
  if (routes.length === 0) return {};
  const integration = `HttpApiIntegration${logical(name)}`;
  const integrated: Resource = {
    Type: 'AWS::ApiGatewayV2::Integration',
    Properties: {
      ApiId: { Ref: 'HttpApi' },
      IntegrationType: 'AWS_PROXY',
      IntegrationUri: targetOf(name, entry),
    },
  };
  return {
    [integration]: integrated,
    ...Object.fromEntries(routes.map((route) => routeOf(route, integration))),
  };
}

function routeOf({ method, path, authorizer }: Tree, integration: string): [string, Resource] {
  const key = `${String(method).toUpperCase()} ${String(path)}`;
  const { type, name } = (authorizer ?? {}) as Tree;
  const asked =
    type === 'aws_iam'
      ? { AuthorizationType: 'AWS_IAM' }
      : name !== undefined && {
          AuthorizationType: 'JWT',
          AuthorizerId: { Ref: `HttpApiAuthorizer${capital(name as string)}` },
        };
  const Target = { 'Fn::Join': ['/', ['integrations', { Ref: integration }]] };
  const Properties = { ApiId: { Ref: 'HttpApi' }, RouteKey: key, Target, ...asked };
  return [routeName(key), { Type: 'AWS::ApiGatewayV2::Route', Properties, DependsOn: integration }];
}

/** `GET /v2/{path+}` -> HttpApiRouteGetV2PathVar */
function routeName(key: string): string {
  const [method = '', ...segments] = key.split(/[ /]/);
  const words = segments.map((one) => one.replace(/^\{(\w+)\+?\}$/, '$1Var').replaceAll(/[^A-Za-z0-9]/g, ''));
  return ['HttpApiRoute', method.toLowerCase(), ...words].map(capital).join('');
}
