/** Notices of outcomes, and the targets that get them: `notify` in config.yaml. */
import { badRequest } from './errors.ts';
import { suggest } from './suggest.ts';

/** One outcome for one target, as it waits in the outbox and is sent. */
export interface Notice {
  /** The same for each announcement of this outcome, so that a receiver can drop what it has. */
  readonly id: string;
  readonly target: string;
  /** JSON that is sent unchanged. */
  readonly body: string;
}

export function isNotice(value: unknown): value is Notice {
  const { id, target, body }: Partial<Record<keyof Notice, unknown>> = Object(value);
  return typeof id === 'string' && typeof body === 'string' && isTargetName(target);
}

/** Who is notified, by the setting `notify`. Exactly one of the addresses is set. */
export interface Target {
  /** An https address: a webhook. */
  readonly url?: string;
  /** Name of the parameter in Systems Manager with the webhook's secret. */
  readonly secret?: string;
  /** Name or ARN of a bus. */
  readonly eventBridge?: string;
  /** ARN of a topic. */
  readonly sns?: string;
  /** URL or ARN of a queue. */
  readonly sqs?: string;
  /** `result`: its JSON is in the body, up to RESULT_BYTES. */
  readonly include?: 'result';
}

export type Targets = Readonly<Record<string, Target>>;

export const MOST_TARGETS = 10;
/** A result in the body of a notice. A larger one is left out, and is there to be read. */
export const RESULT_BYTES = 65_536;

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,39}$/;
export const NAME_RULE = 'a name of 1 to 40 letters, digits, "-" and "_" that begins with a letter';

export function isTargetName(value: unknown): value is string {
  return typeof value === 'string' && NAME.test(value);
}

/** True for an address of this machine, which a service on one machine may call and a deployed one may not. */
export function isLoopbackUrl(url: string): boolean {
  return /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(\/|$)/.test(url);
}

/** @param targets those of the job. @throws bad_request */
export function assertTarget(value: unknown, targets: Targets): string {
  if (!isTargetName(value)) throw badRequest(`notify: expected ${NAME_RULE}`);
  if (Object.hasOwn(targets, value)) return value;
  const names = Object.keys(targets);
  const near = suggest(value, names);
  const known = names.length === 0 ? 'the job has none' : `known are ${names.join(', ')}`;
  const hint = near === undefined ? known : `did you mean "${near}"?`;
  throw badRequest(`notify: no target "${value}" in the job's config.yaml; ${hint}`);
}
