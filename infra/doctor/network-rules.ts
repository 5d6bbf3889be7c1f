/**
 * In: where the functions of a template sit. Out: what they could not reach, and what is paid for nothing.
 * Trap: a call without a way does not fail, it hangs until the function times out.
 */
import { type DeployedFunction, functionsOf, VARIABLES } from './deployment.ts';
import { counted, type Finding, listed, templateRule } from './rule.ts';
import {
  isTrue,
  listOf,
  namesIn,
  numberOf,
  type Properties,
  propertiesOf,
  recordOf,
  resourcesOf,
  type Template,
  textOf,
} from './template.ts';

const HOURS_A_MONTH = 730;
const REDIS_PORT = 6379;
const MAX_PORT = 65_535;

const subnetsOf = ({ properties }: DeployedFunction) =>
  listOf(recordOf(properties['VpcConfig'])['SubnetIds']);

const hasNat = (template: Template) => resourcesOf(template, 'AWS::EC2::NatGateway').length > 0;

function endpoints(template: Template, service: string): Properties[] {
  return resourcesOf(template, 'AWS::EC2::VPCEndpoint')
    .map(([, properties]) => properties)
    .filter(({ ServiceName }) => textOf(ServiceName).endsWith(`.${service}`));
}

const nat = templateRule({
  id: 'network-nat',
  topic: 'Network',
  looksAt: 'NAT gateways',
  why: 'From inside the VPC our functions need S3 and Redis only, and S3 has a free endpoint; a NAT gateway is billed by the hour and by the GB, and opens a way to the internet.',
  fix: 'take it out of infra/stack/network/own.yml; what calls other services belongs outside the VPC, as submit does',
  check: (template) =>
    resourcesOf(template, 'AWS::EC2::NatGateway').map(([where]) => ({
      severity: 'warning',
      where,
      found: `a NAT gateway, ${HOURS_A_MONTH} hours a month`,
      expected: 'none',
    })),
});

const sqs = templateRule({
  id: 'network-sqs-endpoint',
  topic: 'Network',
  looksAt: 'functions in the VPC that send to the queue',
  why: 'There is no way from inside the VPC to SQS without an interface endpoint: each send hangs until the function times out.',
  fix: '--param respondAsync=on makes the endpoint; else the function belongs outside the VPC, or without CLUSTER_SERVING_QUEUE_URL',
  check: (template) => {
    const ways = endpoints(template, 'sqs');
    const isReachable = ways.some(({ VpcEndpointType, PrivateDnsEnabled }) => {
      return textOf(VpcEndpointType) === 'Interface' && isTrue(PrivateDnsEnabled);
    });
    if (isReachable || hasNat(template)) return [];
    // A VPC that was there before may know a way that no template shows.
    const isForeign = (one: DeployedFunction) =>
      subnetsOf(one).every((subnet) => namesIn(subnet).length === 0);
    const found = ways.length === 0 ? 'no endpoint for SQS' : 'an endpoint for SQS without PrivateDnsEnabled';
    return functionsOf(template)
      .filter(({ isInVpc, variables }) => isInVpc && variables[VARIABLES.queue] !== undefined)
      .map((one) => ({
        severity: isForeign(one) ? 'info' : 'error',
        where: one.name,
        found: `${VARIABLES.queue} inside the VPC, and ${found}${isForeign(one) ? ' in this template' : ''}`,
        expected: 'an interface endpoint for SQS with private DNS',
      }));
  },
});

const s3 = templateRule({
  id: 'network-s3-endpoint',
  topic: 'Network',
  looksAt: 'the S3 gateway endpoint, and whether the subnets of the functions are on its route tables',
  why: 'Without it the model cannot be downloaded: INIT hangs, /ready answers 503. The endpoint costs nothing.',
  fix: 'S3Endpoint and its RouteTableIds in infra/stack/network/own.yml; in a VPC of yours --param routeTableIds',
  check: (template) => {
    const routed = subnetsToS3(template);
    const expected = 'a gateway endpoint for S3 on the route table of every subnet';
    return functionsOf(template)
      .filter(({ isInVpc, variables }) => isInVpc && variables[VARIABLES.bucket] !== undefined)
      .flatMap((one): Finding[] => {
        const subnets = subnetsOf(one);
        const own = subnets.flatMap(namesIn);
        const cut = own.filter((subnet) => !routed.has(subnet));
        // Of subnets that were there before no template says which route tables they have.
        const isUnknown = own.length < subnets.length && endpoints(template, 's3').length === 0;
        if (cut.length === 0 && !isUnknown) return [];
        const found = `no way to S3 from ${listed(cut.length > 0 ? cut : subnets.map(textOf))} in this template`;
        const severity = cut.length === 0 ? 'info' : hasNat(template) ? 'warning' : 'error';
        return [{ severity, where: one.name, found, expected }];
      });
  },
});

function subnetsToS3(template: Template): Set<string> {
  const tables = new Set(
    endpoints(template, 's3')
      .filter(({ VpcEndpointType }) => textOf(VpcEndpointType) !== 'Interface')
      .flatMap(({ RouteTableIds }) => namesIn(RouteTableIds)),
  );
  const subnets = resourcesOf(template, 'AWS::EC2::SubnetRouteTableAssociation')
    .filter(([, { RouteTableId }]) => namesIn(RouteTableId).some((name) => tables.has(name)))
    .flatMap(([, { SubnetId }]) => namesIn(SubnetId));
  return new Set(subnets);
}

const outside = templateRule({
  id: 'network-redis-outside',
  topic: 'Network',
  looksAt: 'functions with an address of Redis that are not in the VPC',
  why: 'ElastiCache can be reached from inside its VPC only: each command times out.',
  fix: 'vpc of the function in serverless.yml, or no CLUSTER_SERVING_REDIS_URL',
  check: (template) =>
    functionsOf(template)
      .filter(({ isInVpc, variables }) => !isInVpc && variables[VARIABLES.redis] !== undefined)
      .map(({ name }) => ({
        severity: 'error',
        where: name,
        found: `${VARIABLES.redis} outside the VPC`,
        expected: 'in the VPC of Redis',
      })),
});

const zones = templateRule({
  id: 'network-zones',
  topic: 'Network',
  looksAt: 'in how many zones the subnets of a function lie',
  why: 'When the one zone fails, so does every function in it.',
  fix: 'two subnets in two zones in infra/stack/network/own.yml, or --param subnetIds in a VPC of yours',
  check: (template) =>
    functionsOf(template)
      .filter(({ isInVpc }) => isInVpc)
      .flatMap((one): Finding[] => {
        const zonesOf = subnetsOf(one).map((subnet) => {
          const [name] = namesIn(subnet);
          const zone = propertiesOf(template, name)['AvailabilityZone'];
          return JSON.stringify(zone ?? subnet);
        });
        if (new Set(zonesOf).size > 1) return [];
        const found = `${counted(zonesOf.length, 'subnet')} in one zone`;
        return [{ severity: 'warning', where: one.name, found, expected: 'two zones' }];
      }),
});

const redisDoor = templateRule({
  id: 'network-redis-door',
  topic: 'Network',
  looksAt: 'whether the security group of Redis lets in that of every function with its address',
  why: 'A packet that no rule lets in is dropped without an answer: each command waits for its second, and every request fails.',
  fix: 'RedisFromFunction in infra/stack/security-groups.yml; with --param securityGroup that very group',
  check: (template) => {
    const doors = redisDoors(template);
    return functionsOf(template)
      .filter(({ isInVpc, variables }) => isInVpc && variables[VARIABLES.redis] !== undefined)
      .flatMap((one): Finding[] => {
        const groups = listOf(recordOf(one.properties['VpcConfig'])['SecurityGroupIds']).map(groupText);
        const shut = doors.filter(({ lets }) => !groups.some((group) => lets.has(group)));
        return shut.map(({ redis, lets }) => ({
          severity: 'error',
          where: one.name,
          found: `its group ${listed(groups)}, and ${redis} lets in ${listed([...lets]) || 'nobody'}`,
          expected: 'a rule that lets it in, on the port of Redis',
        }));
      });
  },
});

interface Door {
  /** Logical name. */
  readonly redis: string;
  /** The groups it lets in, as text. */
  readonly lets: ReadonlySet<string>;
}

/** One that lets in addresses, or whose own groups are not in the template, is passed over. */
function redisDoors(template: Template): Door[] {
  const rules = resourcesOf(template, 'AWS::EC2::SecurityGroupIngress').map(([, rule]) => rule);
  return resourcesOf(template, 'AWS::ElastiCache::ReplicationGroup').flatMap(([redis, properties]) => {
    const port = numberOf(properties['Port']) ?? REDIS_PORT;
    const own = listOf(properties['SecurityGroupIds']).flatMap(namesIn);
    const known = own.filter((name) => Object.hasOwn(template.Resources, name));
    if (known.length === 0) return [];
    const inside = known.flatMap((name) => listOf(propertiesOf(template, name)['SecurityGroupIngress']));
    const beside = rules.filter(({ GroupId }) => namesIn(GroupId).some((name) => known.includes(name)));
    const open = [...inside, ...beside].map(recordOf).filter(({ FromPort, ToPort }) => {
      return (numberOf(FromPort) ?? 0) <= port && port <= (numberOf(ToPort) ?? MAX_PORT);
    });
    if (open.some(({ CidrIp, CidrIpv6 }) => (CidrIp ?? CidrIpv6) !== undefined)) return [];
    return [{ redis, lets: new Set(open.map((rule) => groupText(rule['SourceSecurityGroupId']))) }];
  });
}

/** `!GetAtt Group.GroupId` is `!Ref Group` of a group in a VPC. */
function groupText(group: unknown): string {
  return textOf(group).replace('.GroupId}', '}');
}

export const NETWORK_RULES = [nat, sqs, s3, outside, redisDoor, zones];
