/** Which of the alternatives of infra/stack/, and which functions of serverless.yml, a stack has. */
import { hasFileJobs, hasTargets, type JobConfig } from '../../lib/config/job.ts';
import { hasBudget } from '../../lib/contract/budget.ts';
import { isCapturing } from '../../lib/contract/capture.ts';
import { type Deployment, type RedisDeployment, usesVpc } from './parameters.ts';

/** The alternative of each part of a stack: infra/stack/<part>/<value>.yml. */
export function filesOf(deployment: Deployment, job: JobConfig) {
  const { redis, redisAuth, respondAsync, securityGroup, domain } = deployment;
  const isInVpc = usesVpc(deployment);
  const hasRedis = redis === 'node' || redis === 'serverless';
  // A Redis on the internet always requires sign-in.
  const signsIn = (hasRedis && redisAuth === 'iam') || redis === 'public';
  const { network, alarmTopic } = filesOfRedis(deployment);
  return {
    respondAsync: respondAsync === 'off' ? 'off' : 'on',
    sqsEndpoint: isInVpc && respondAsync === 'on' ? 'on' : 'off',
    network: isInVpc && redis !== 'shared' ? network : 'none',
    functionGroup: isInVpc ? (securityGroup === '' ? 'own' : 'existing') : 'none',
    interfaces: isInVpc ? 'on' : 'off',
    redis,
    redisGroup: hasRedis ? 'own' : 'none',
    // On a shared Redis every function signs in: infra/stack/redis/shared.yml.
    redisAuth: signsIn ? 'iam' : 'none',
    redisUsers: signsIn ? redis : 'none',
    alarmTopic,
    tracing: deployment.tracing,
    domain: domain === '' ? 'off' : 'on',
    ...filesOfJob(job),
  };
}

/** The alternatives of a stack with a Redis, as infra/stack/<part>/<value>.yml. */
export function filesOfRedis({ vpcId, routeTableIds, alarmEmail, alarmTopic }: RedisDeployment) {
  const existing = routeTableIds.length > 0 ? 'existing-to-s3' : 'existing';
  return {
    network: vpcId === '' ? 'own' : existing,
    alarmTopic: alarmEmail === '' ? (alarmTopic === 'own' ? 'own' : 'none') : 'email',
  };
}

function filesOfJob(job: JobConfig) {
  const onOff = (isOn: boolean) => (isOn ? 'on' : 'off');
  return {
    notify: onOff(hasTargets(job)),
    capture: onOff(isCapturing(job.capture)),
    jobs: onOff(hasFileJobs(job)),
    priority: onOff(job.queue.highShare > 0),
    bucketEvents: onOff(hasTargets(job) || hasFileJobs(job)),
    budget: onOff(hasBudget(job.budget)),
    trials: onOff(job.release.trials),
    monthlyBudget: onOff(job.budget.perMonth > 0),
  };
}

/** Functions of serverless.yml that this stack does not have. */
export function absentFunctions(job: JobConfig): string[] {
  return [
    ...(hasTargets(job) ? [] : ['notifier']),
    ...(hasFileJobs(job) ? [] : ['jobs']),
    ...(job.release.trials ? [] : ['trials']),
    ...(hasBudget(job.budget) ? [] : ['throttle']),
  ];
}
