/**
 * In: the buckets and queues of a template. Out: who could read them, and what would be gone too early.
 * Trap: a payload in S3 must outlive the message that points to it, in the dead letters too.
 */
import { deadLetterQueues, functionsOf, VARIABLES } from './deployment.ts';
import { retentionSeconds } from './queue-rules.ts';
import { type Finding, isProduction, templateRule } from './rule.ts';
import {
  isTrue,
  listOf,
  namesIn,
  numberOf,
  type Properties,
  propertiesOf,
  recordOf,
  resourcesOf,
  type Statement,
  statementsOf,
  type Template,
  textOf,
} from './template.ts';

const BUCKET = 'AWS::S3::Bucket';
const DAY_SECONDS = 86_400;
const BLOCKS = ['BlockPublicAcls', 'BlockPublicPolicy', 'IgnorePublicAcls', 'RestrictPublicBuckets'];
/** Named so by osls. */
const DEPLOYMENT_BUCKET = 'ServerlessDeploymentBucket';

const publicAccess = templateRule({
  id: 'bucket-public-access',
  topic: 'Storage',
  looksAt: 'PublicAccessBlockConfiguration of every bucket',
  why: 'One wrong policy or object ACL makes models and records readable for everybody; the block holds whatever comes later.',
  fix: 'PublicAccessBlockConfiguration, all four true, in infra/stack/bucket.yml',
  check: (template) =>
    resourcesOf(template, BUCKET).flatMap(([where, { PublicAccessBlockConfiguration }]): Finding[] => {
      const block = recordOf(PublicAccessBlockConfiguration);
      const open = BLOCKS.filter((name) => !isTrue(block[name]));
      if (open.length === 0) return [];
      return [{ severity: 'error', where, found: `without ${open.join(', ')}`, expected: 'all four true' }];
    }),
});

const hasEncryption = ({ BucketEncryption }: Properties) =>
  listOf(recordOf(BucketEncryption)['ServerSideEncryptionConfiguration']).length > 0;

const encryption = templateRule({
  id: 'bucket-encryption',
  topic: 'Storage',
  looksAt: 'BucketEncryption of the bucket for models, payloads and parked messages',
  why: 'S3 encrypts by itself since 2023; said in the template it can be shown in an audit, and stays when the default changes.',
  fix: 'BucketEncryption: AES256 in infra/stack/bucket.yml',
  check: (template) =>
    resourcesOf(template, BUCKET)
      .filter(([where, bucket]) => where !== DEPLOYMENT_BUCKET && !hasEncryption(bucket))
      .map(([where]) => ({
        severity: 'warning',
        where,
        found: 'no BucketEncryption',
        expected: 'AES256 or aws:kms',
      })),
});

const deploymentEncryption = templateRule({
  id: 'deployment-bucket-encryption',
  topic: 'Storage',
  looksAt: 'BucketEncryption of the bucket that deployments go through',
  why: 'It holds the code of every deployment and the template with all variables.',
  fix: 'provider.deploymentBucket.serverSideEncryption: AES256 in serverless.yml',
  check: (template) =>
    resourcesOf(template, BUCKET)
      .filter(([where, bucket]) => where === DEPLOYMENT_BUCKET && !hasEncryption(bucket))
      .map(([where]) => ({
        severity: 'warning',
        where,
        found: 'no BucketEncryption',
        expected: 'AES256 or aws:kms',
      })),
});

function refusesPlain({ effect, condition }: Statement): boolean {
  const bool = recordOf(recordOf(condition)['Bool']);
  return effect === 'Deny' && String(bool['aws:SecureTransport']) === 'false';
}

function unprotected(template: Template, type: string, policyType: string, property: string): string[] {
  const safe = resourcesOf(template, policyType)
    .filter(([name, { PolicyDocument }]) => statementsOf(name, PolicyDocument).some(refusesPlain))
    .flatMap(([, properties]) => namesIn(properties[property]));
  return resourcesOf(template, type)
    .map(([name]) => name)
    .filter((name) => !safe.includes(name));
}

const tlsOnly = templateRule({
  id: 'tls-only',
  topic: 'Storage',
  looksAt: 'policies of buckets and queues that deny aws:SecureTransport false',
  why: 'S3 and SQS answer over plain HTTP too; a client with a wrong url would send records in the open.',
  fix: 'a Deny for aws:SecureTransport false: BucketPolicy in infra/stack/bucket.yml, QueuePolicy in infra/stack/queue.yml',
  check: (template) =>
    [
      ...unprotected(template, BUCKET, 'AWS::S3::BucketPolicy', 'Bucket'),
      ...unprotected(template, 'AWS::SQS::Queue', 'AWS::SQS::QueuePolicy', 'Queues'),
    ].map((where) => ({
      severity: 'warning',
      where,
      found: 'no policy that refuses plain HTTP',
      expected: 'Deny where aws:SecureTransport is false',
    })),
});

const payloadLifetime = templateRule({
  id: 'bucket-payload-lifetime',
  topic: 'Storage',
  looksAt: 'expiry of payloads/ in the bucket against the retention of the dead letters',
  why: 'A message over 1 MiB is a pointer into the bucket: with the payload gone it can neither run nor be tried again.',
  fix: 'ExpirationInDays of the rule "payloads" in infra/stack/bucket.yml: 14 days of dead letters and 30 of parked messages make 45',
  check: (template, { settings }) => {
    const days = Math.max(
      ...[...deadLetterQueues(template)].map(
        (queue) => retentionSeconds(propertiesOf(template, queue)) / DAY_SECONDS,
      ),
      0,
    );
    return usedBuckets(template).flatMap(([where, bucket]): Finding[] => {
      const rules = lifecycleRules(bucket).filter(({ prefix }) => settings.payloadPrefix.startsWith(prefix));
      const expiries = rules.flatMap(({ expiryDays }) => (expiryDays === undefined ? [] : [expiryDays]));
      if (expiries.length === 0) {
        const why =
          'Payloads of records that were deleted from the queue, or answered, stay and are paid for ever.';
        return [{ severity: 'info', where, found: 'payloads never expire', expected: '45 days', why }];
      }
      const shortest = Math.min(...expiries);
      if (shortest >= days) return [];
      const found = `payloads expire after ${shortest} days`;
      return [{ severity: 'error', where, found, expected: `at least the ${days} days of the dead letters` }];
    });
  },
});

interface LifecycleRule {
  readonly prefix: string;
  readonly expiryDays: number | undefined;
  readonly abortDays: number | undefined;
}

function lifecycleRules({ LifecycleConfiguration }: Properties): LifecycleRule[] {
  return listOf(recordOf(LifecycleConfiguration)['Rules'])
    .map(recordOf)
    .filter(({ Status }) => Status === 'Enabled')
    .map(({ Prefix, Filter, ExpirationInDays, AbortIncompleteMultipartUpload }) => ({
      prefix: textOf(Prefix ?? recordOf(Filter)['Prefix']),
      expiryDays: numberOf(ExpirationInDays),
      abortDays: numberOf(recordOf(AbortIncompleteMultipartUpload)['DaysAfterInitiation']),
    }));
}

function usedBuckets(template: Template) {
  const used = functionsOf(template).flatMap(({ variables }) => namesIn(variables[VARIABLES.bucket]));
  return resourcesOf(template, BUCKET).filter(([name]) => used.includes(name));
}

const modelExpiry = templateRule({
  id: 'bucket-model-expiry',
  topic: 'Storage',
  looksAt: 'lifecycle rules that reach models/',
  why: 'The model that serves expires too: environments that run go on, every new one answers 503.',
  fix: 'Prefix of the lifecycle rules in infra/stack/bucket.yml',
  check: (template, { settings }) =>
    usedBuckets(template).flatMap(([where, bucket]) =>
      lifecycleRules(bucket)
        .filter(
          ({ prefix, expiryDays }) => expiryDays !== undefined && settings.modelPrefix.startsWith(prefix),
        )
        .map(({ prefix, expiryDays }) => ({
          severity: 'error',
          where,
          found: `objects below "${prefix}" expire after ${expiryDays} days, ${settings.modelPrefix} with them`,
          expected: 'no expiry for models',
        })),
    ),
});

const tornUploads = templateRule({
  id: 'bucket-torn-uploads',
  topic: 'Storage',
  looksAt: 'AbortIncompleteMultipartUpload of the bucket',
  why: 'Parts of an upload that broke off are in no listing, and are paid until somebody aborts it.',
  fix: 'AbortIncompleteMultipartUpload in infra/stack/bucket.yml',
  check: (template) =>
    usedBuckets(template)
      .filter(([, bucket]) => !lifecycleRules(bucket).some(({ abortDays }) => abortDays !== undefined))
      .map(([where]) => ({
        severity: 'info',
        where,
        found: 'uploads that broke off stay',
        expected: 'DaysAfterInitiation: 1',
      })),
});

const dataKept = templateRule({
  id: 'data-kept',
  topic: 'Storage',
  looksAt: 'DeletionPolicy of bucket and Redis in a stage whose name begins with prod, prd or live',
  why: 'A stack that is removed, or whose bucket or Redis CloudFormation must replace, takes models, parked records and results with it.',
  fix: '--param keepData=on (prod has it)',
  check: (template, facts) => {
    if (!isProduction(facts)) return [];
    const kept = (name: string, policies: readonly string[]): Finding[] => {
      const resource = recordOf(template.Resources[name]);
      const lost = ['DeletionPolicy', 'UpdateReplacePolicy'].filter(
        (key) => !policies.includes(textOf(resource[key])),
      );
      if (lost.length === 0) return [];
      const found = `${lost.join(' and ')}: ${textOf(resource[lost[0] as string]) || 'Delete, the default'}`;
      return [{ severity: 'warning', where: name, found, expected: policies.join(' or ') }];
    };
    const buckets = usedBuckets(template).flatMap(([name]) => kept(name, ['Retain']));
    const caches = resourcesOf(template, 'AWS::ElastiCache::ReplicationGroup').flatMap(([name]) =>
      kept(name, ['Snapshot', 'Retain']),
    );
    return [...buckets, ...caches];
  },
});

export const STORAGE_RULES = [
  dataKept,
  publicAccess,
  encryption,
  deploymentEncryption,
  tlsOnly,
  payloadLifetime,
  modelExpiry,
  tornUploads,
];
