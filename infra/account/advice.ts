/**
 * What to do when AWS refuses a part of the stack. Its texts, as they stand in the events of a stack, name neither our
 * parameters nor, of Lambda, the zone. They are from public reports of such failures; AWS may change them.
 */

export interface Deploying {
  /** Of the parameter `zones`; empty: the first two of the region. */
  readonly zones: readonly string[];
  readonly region: string;
  readonly stage: string;
}

/** Reports name one or two of them; a longer one is cut off. */
const MAX_ADVICE = 3;
const ZONE = /\b[a-z]{2}(?:-[a-z]+)+-\d+(?:-[a-z]+-\d+)?[a-z]\b/g;
const WALK = 'docs/how-to/deploy-troubleshooting.md';

/** Answers for an error whose text matches. */
const ADVICE: readonly (readonly [pattern: RegExp, says: (text: string, deploying: Deploying) => string])[] =
  [
    [/availability ?zone/i, zoneAdvice],
    [
      /MemorySize.*less than or equal to 3008/is,
      () =>
        'this account has functions of at most 3008 MB: set function.memoryMB in config.yaml to 3008 or less, or ask AWS Support for more',
    ],
    [
      /UnreservedConcurrentExecution.*below its minimum/is,
      () =>
        'this account has too few environments for --param provisioned: set it to 0, or ask Service Quotas for more concurrent executions',
    ],
    [
      /maximum number of VPCs/i,
      () =>
        'this account has as many VPCs in the region as it may: ask Service Quotas for more "VPCs per Region", or use one with --param vpcId and subnetIds',
    ],
    [
      /ROLLBACK_COMPLETE state and can ?not be updated/i,
      (_text, { stage }) =>
        `the first creation of the stack failed, and CloudFormation only lets it be removed: npx serverless remove --stage ${stage}, then deploy again`,
    ],
    [
      /bucket you tried to delete is not empty|not empty.*bucket/is,
      () => `CloudFormation deletes empty buckets only: ${WALK} has the command that empties it`,
    ],
    [
      /has a dependent object|DependencyViolation|is currently in use/i,
      (_text, { stage }) =>
        `Lambda still holds network interfaces in the subnets, for up to 40 minutes: wait, then npx serverless remove --stage ${stage} again`,
    ],
    [
      /already exists/i,
      () =>
        `something of that name is left, of another stack or of one that was removed: ${WALK} says what to look for`,
    ],
  ];

/** @returns one line for each kind of problem in the text of an error, at most three */
export function adviceOn(text: string, deploying: Deploying): string[] {
  return ADVICE.filter(([pattern]) => pattern.test(text))
    .slice(0, MAX_ADVICE)
    .map(([, says]) => says(text, deploying));
}

function zoneAdvice(text: string, { zones, region }: Deploying): string {
  // "… in the availability zone us-east-1e. … target: us-east-1a, us-east-1b"; or "Value (us-east-1e) … zones: …".
  const [refusal = '', offer = ''] = text.split(/availability zones:|target:/i);
  const refused = [...new Set(refusal.match(ZONE))];
  const offered = [...new Set(offer.match(ZONE))].filter((zone) => !refused.includes(zone));
  const used = zones.length > 0 ? zones.join(' or ') : `one of the first two zones of ${region}`;
  const what = `AWS does not offer this in ${refused.length > 0 ? refused.join(', ') : used}`;
  if (offered.length >= 2) return `${what}: --param zones=${offered.slice(0, 2).join()}`;
  return `${what}: name two others, --param zones=<zone>,<zone>; npx cluster-serving doctor --account lists those of the account`;
}
