/** The part of the world that those who act in it know, and the names that all share. */
import type { Result } from '../../lib/contract/result.ts';
import type { Answer, History } from './history.ts';
import type { Evaluate } from './machine/bundle.ts';
import type { Network } from './machine/network.ts';
import type { Machine, SimulatedProcess } from './machine/process.ts';
import type { Choices } from './machine/random.ts';
import type { Scheduler } from './machine/scheduler.ts';
import { FURTHER } from './models/inference.ts';
import type { FunctionModel } from './models/lambda.ts';

export const JOB = 'job';
export const BUCKET = 'bucket';
export const QUEUE_URL = 'https://sqs.eu-west-1.amazonaws.com/1/job';
export const REDIS_URL = 'redis://redis:6379';

export interface Stage {
  readonly history: History;
  readonly choices: Choices;
  readonly scheduler: Scheduler;
  readonly machine: Machine;
  readonly network: Network;
  readonly evaluate: Evaluate;
  readonly functions: Readonly<Record<string, FunctionModel>>;
  readonly nowMs: number;
  /** The way to Redis. */
  reach: 'open' | 'refused' | 'silent';
  /** The most that the network takes longer. */
  slowMs: number;
  /** Shares of messages, and the longest delay. */
  delivery: { readonly twice: number; readonly lostDelete: number; readonly delayMs: number };
  readonly troubled: Map<'s3' | 'sqs', { readonly how: string; readonly share: number }>;
  redis: SimulatedProcess | undefined;
  /** A hash that Redis holds. */
  hashOf(key: string): ReadonlyMap<string, string> | undefined;
  startRedis(): void;
  /** Somebody deletes all of a further model. */
  deleteModel(model: string): void;
  /** Environments that start from now on have other settings, and other code if there is any. */
  deploy(ttlSeconds: number): void;
  /** Writes a sentence of the story. @param about uris; undefined: it concerns all */
  tell(from: string, to: string, text: string, about?: readonly string[]): void;
}

/** The record, version and model of an answer. */
export function answerOf(result: Pick<Result, 'outputs'>): Answer | undefined {
  const [number, version, place] = result.outputs[0]?.data ?? [];
  return number === undefined || version === undefined
    ? undefined
    : { number: Number(number), version: Number(version), place: Number(place) };
}

export function answerText(answer: Answer | undefined): string {
  const model = answer && FURTHER[answer.place - 1];
  return `${answer?.number} of version ${answer?.version}${model === undefined ? '' : ` of ${model}`}`;
}
