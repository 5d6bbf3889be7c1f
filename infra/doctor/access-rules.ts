/**
 * Rules about who can reach the HTTP API and Redis, and what functions can reach in an existing VPC. A call without a
 * route does not fail but hangs until the function times out.
 */
import { type Facts, isProduction, listed, settingsRule } from './rule.ts';
import { resourcesOf, textOf } from './template.ts';

const redisAccess = settingsRule({
  id: 'redis-access',
  topic: 'Redis',
  looksAt: 'redisAuth: how functions sign in to Redis',
  why: 'Anybody who can connect to Redis can read and write every result. Without IAM, the security group is the only protection.',
  fix: '--param redisAuth=iam',
  check: ({ settings, parameters: { securityGroup } }) => {
    const { files, sharedRedis } = settings;
    if (files.redis === 'url' || files.redis === 'dynamodb' || sharedRedis || files.redisAuth !== 'none')
      return [];
    const admitted = securityGroup ? `everything in ${securityGroup}` : 'the functions of this stack';
    const found = `no authentication; its security group admits ${admitted}`;
    return [{ severity: 'info', where: '--param redisAuth', found, expected: 'iam' }];
  },
});

const redisNodes = settingsRule({
  id: 'redis-single-node',
  topic: 'Redis',
  looksAt: 'number of nodes in a stage whose name begins with prod, prd or live',
  why: 'With one node, a failure or an update of it loses all results, and every request that needs them fails for minutes.',
  fix: '--param redisNodes=2',
  check: (facts) => {
    const { redisNodes: count, files } = facts.settings;
    if (files.redis !== 'node' || !isProduction(facts) || count > 1) return [];
    const expected = 'at least 2, one of which takes over';
    const found = `${count} node in stage ${facts.stage}`;
    return [{ severity: 'warning', where: '--param redisNodes', found, expected }];
  },
});

const sqsRoute = settingsRule({
  id: 'network-sqs-endpoint',
  topic: 'Network',
  looksAt: 'the route to SQS of predict in an existing VPC',
  why: 'There is no route from a VPC to SQS without an interface endpoint or a NAT gateway: each send hangs until the function times out.',
  fix: 'respondAsync=on creates the endpoint; with respondAsync=routed make sure that the VPC has one, with private DNS',
  check: ({ parameters }) => {
    if (parameters['respondAsync'] !== 'routed') return [];
    const found = 'respondAsync=routed, and no endpoint for SQS in this template';
    const expected = 'an interface endpoint for SQS with private DNS, or a NAT gateway';
    return [{ severity: 'info', where: '--param respondAsync', found, expected }];
  },
});

const s3Route = settingsRule({
  id: 'network-s3-endpoint',
  topic: 'Network',
  looksAt: 'the route to S3 of functions in an existing VPC',
  why: 'Without it the model cannot be downloaded: INIT hangs and /ready answers 503. A gateway endpoint for S3 costs nothing.',
  fix: '--param routeTableIds creates the endpoint; without it make sure that the subnets have a route to S3',
  check: ({ settings, parameters }) => {
    if (settings.files.network !== 'existing') return [];
    const found = `no way to S3 from ${String(parameters['subnetIds'])} in this template`;
    const expected = 'a gateway endpoint for S3 on the route table of every subnet';
    return [{ severity: 'info', where: '--param subnetIds', found, expected }];
  },
});

/** Routes without an authorizer, as `POST /predict`. They are read from the template, because a serverless.yml may add some. */
function openRoutes({ template, settings }: Facts): string[] {
  if (!template) return settings.authorizer === null ? ['every route'] : [];
  return resourcesOf(template, 'AWS::ApiGatewayV2::Route')
    .filter(([, { AuthorizationType }]) => (textOf(AuthorizationType) || 'NONE') === 'NONE')
    .map(([, { RouteKey }]) => textOf(RouteKey))
    .filter((key) => !key.startsWith('OPTIONS'));
}

const auth = settingsRule({
  id: 'api-auth',
  topic: 'HTTP',
  looksAt: 'AuthorizationType of every route',
  why: 'Anybody who finds the address can run the model, and read and delete results, at your cost.',
  fix: '--param auth=iam (requests signed with AWS credentials), or an authorizer of your own in front',
  check: (facts) => {
    const open = openRoutes(facts);
    if (open.length === 0) return [];
    const severity = isProduction(facts) ? 'error' : 'warning';
    const found = `no authorization for ${listed(open)} in stage ${facts.stage}`;
    return [{ severity, where: facts.template ? 'HTTP API' : '--param auth', found, expected: 'AWS_IAM' }];
  },
});

const cors = settingsRule({
  id: 'api-cors',
  topic: 'HTTP',
  looksAt: 'origins whose pages may call from a browser, of an API without authorization',
  why: 'Any page that is opened inside your network can then call the API and read the answers.',
  fix: 'http.corsOrigins in config.yaml: the origins of your own pages; or --param auth=iam',
  check: (facts) => {
    if (!facts.job.http.corsOrigins.includes('*') || openRoutes(facts).length === 0) return [];
    const severity = isProduction(facts) ? 'error' : 'warning';
    const found = 'every origin ("*"), and no authorization';
    return [{ severity, where: 'http.corsOrigins', found, expected: 'the origins that need it' }];
  },
});

export const ACCESS_RULES = [redisAccess, redisNodes, sqsRoute, s3Route, auth, cors];
