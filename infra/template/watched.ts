/**
 * The metrics that alarms and dashboard watch: functions, Redis nodes and the service's own. Names and timeouts are
 * also in serverless.yml; test/infra/monitoring-tests.ts compares them.
 */
import { NOTIFIER_SECONDS, THROTTLE_SECONDS } from '../../lib/config/job.ts';
import type { CfnValue } from './resources.ts';

export interface MonitoringRequest {
  readonly service: string;
  readonly stage: string;
  readonly jobName: string;
  /** The name of batch; with a worker in Python it is another one. */
  readonly batchName: string;
  /** The timeout of batch. */
  readonly timeoutSeconds: number;
  readonly predictTimeoutSeconds: number;
  /** True for a stack with the notifier. */
  readonly hasTargets: boolean;
  /** The timeout of trials; 0 for a stack that does not look at versions on trial. */
  readonly trialsSeconds: number;
  /** True for a stack with jobs over files. */
  readonly hasFileJobs: boolean;
  /** True for a stack that slows queues down. */
  readonly hasBudget: boolean;
  /** 0 when Redis is not in this stack. */
  readonly redisNodes: number;
  readonly redisNodeType: string;
  readonly alarmActions: readonly CfnValue[];
}

export interface Resource {
  readonly Type: string;
  readonly Properties: Readonly<Record<string, unknown>>;
}

/** A function with its name, the start of its logical name in osls, and its timeout. */
export interface Watched {
  readonly name: string;
  readonly logicalName: string;
  readonly timeoutSeconds: number;
}

/** The namespace of the service's own metrics. */
export const OURS = 'ClusterServing';

/** The functions in serverless.yml. */
export function watchedFunctions(request: MonitoringRequest): Watched[] {
  const { timeoutSeconds, predictTimeoutSeconds, hasTargets, hasFileJobs, hasBudget, trialsSeconds } =
    request;
  const notifier = { name: 'notifier', logicalName: 'Notifier', timeoutSeconds: NOTIFIER_SECONDS };
  return [
    { name: 'predict', logicalName: 'Predict', timeoutSeconds: predictTimeoutSeconds },
    { name: 'batch', logicalName: 'Batch', timeoutSeconds },
    { name: 'submit', logicalName: 'Submit', timeoutSeconds: 29 },
    { name: 'predictions', logicalName: 'Predictions', timeoutSeconds: 29 },
    { name: 'status', logicalName: 'Status', timeoutSeconds: 10 },
    { name: 'dead-letter', logicalName: 'DeadDashletter', timeoutSeconds: 30 },
    ...(hasTargets ? [notifier] : []),
    ...(trialsSeconds > 0 ? [{ name: 'trials', logicalName: 'Trials', timeoutSeconds: trialsSeconds }] : []),
    ...(hasFileJobs ? [{ name: 'jobs', logicalName: 'Jobs', timeoutSeconds }] : []),
    ...(hasBudget ? [{ name: 'throttle', logicalName: 'Throttle', timeoutSeconds: THROTTLE_SECONDS }] : []),
  ];
}

/** Id of a node, counted from 1. A failover does not change the ids. */
export function redisNode(node: number): { readonly 'Fn::Sub': string } {
  return { 'Fn::Sub': `\${Redis}-${String(node).padStart(3, '0')}` };
}
