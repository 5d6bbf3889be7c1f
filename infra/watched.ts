/**
 * In: a deployment's names. Out: what there is to watch: its functions, its Redis nodes, our own metrics.
 * Trap: names and time-outs stand in serverless.yml too; test/infra/monitoring-tests.ts compares them.
 */
import type { CfnValue } from './resources.ts';

export interface MonitoringRequest {
  readonly service: string;
  readonly stage: string;
  readonly jobName: string;
  /** Of batch. */
  readonly timeoutSeconds: number;
  readonly predictTimeoutSeconds: number;
  readonly redisNodes: number;
  readonly alarmActions: readonly CfnValue[];
}

export interface Resource {
  readonly Type: string;
  readonly Properties: Readonly<Record<string, unknown>>;
}

/** A function's name, osls's word for it in logical names, and its time-out as in serverless.yml. */
export interface Watched {
  readonly name: string;
  readonly logicalName: string;
  readonly timeoutSeconds: number;
}

/** Namespace of our own metrics. */
export const OURS = 'ClusterServing';

/** What serverless.yml deploys. */
export function watchedFunctions({ timeoutSeconds, predictTimeoutSeconds }: MonitoringRequest): Watched[] {
  return [
    { name: 'predict', logicalName: 'Predict', timeoutSeconds: predictTimeoutSeconds },
    { name: 'batch', logicalName: 'Batch', timeoutSeconds },
    { name: 'submit', logicalName: 'Submit', timeoutSeconds: 29 },
    { name: 'predictions', logicalName: 'Predictions', timeoutSeconds: 29 },
    { name: 'status', logicalName: 'Status', timeoutSeconds: 10 },
    { name: 'dead-letter', logicalName: 'DeadDashletter', timeoutSeconds: 30 },
  ];
}

/** Id of a node, counted from 1. Every node of a group has one, whichever is the primary. */
export function redisNode(node: number): { readonly 'Fn::Sub': string } {
  return { 'Fn::Sub': `\${Redis}-${String(node).padStart(3, '0')}` };
}
