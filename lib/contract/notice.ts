/** Notices of outcomes, and the targets that get them: `notify` in config.yaml. */
import { badRequest, type ServingError } from './errors.ts';
import { suggest } from './suggest.ts';

/** One outcome for one target, as it waits in the outbox and is sent. */
export interface Notice {
  /** The same for each announcement of this outcome, so that a receiver can drop what it has. */
  readonly id: string;
  readonly target: string;
  /** JSON that is sent unchanged. */
  readonly body: string;
  /** The task of Step Functions that waits for it. */
  readonly taskToken?: string | undefined;
}

export function isNotice(value: unknown): value is Notice {
  const { id, target, body, taskToken }: Partial<Record<keyof Notice, unknown>> = Object(value);
  if (taskToken !== undefined && !isTaskToken(taskToken)) return false;
  return typeof id === 'string' && typeof body === 'string' && isTargetName(target);
}

/** Who is notified of a record's outcome. */
export interface Notified {
  /** The name of a target. */
  readonly notify?: string | undefined;
  /** The task of Step Functions that the outcome ends, for a target with `stepFunctions`. */
  readonly taskToken?: string | undefined;
}

/** A type whose values were not checked yet. */
export type Unchecked<T> = { readonly [K in keyof T]?: unknown };

/** Leaves out values that make no sense. */
export function readNotified({ notify, taskToken }: Unchecked<Notified>): Notified {
  if (!isTargetName(notify)) return {};
  return { notify, ...(isTaskToken(taskToken) && { taskToken }) };
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
  /** ARN of a state machine, whose tasks records end. */
  readonly stepFunctions?: string;
  /** `result`: its JSON is in the body, up to RESULT_BYTES. */
  readonly include?: 'result';
}

export type Targets = Readonly<Record<string, Target>>;

export const MOST_TARGETS = 10;
/** A result in the body of a notice. A larger one is left out, and is there to be read. */
export const RESULT_BYTES = 65_536;
/** The longest output of a task, by Step Functions. */
export const TASK_OUTPUT_BYTES = 262_144;
/** The longest token of a task, by Step Functions. */
export const TASK_TOKEN_LENGTH = 2_048;

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,39}$/;
export const NAME_RULE = 'a name of 1 to 40 letters, digits, "-" and "_" that begins with a letter';

export function isTargetName(value: unknown): value is string {
  return typeof value === 'string' && NAME.test(value);
}

const TOKEN = new RegExp(`^[!-~]{1,${TASK_TOKEN_LENGTH}}$`);

function isTaskToken(value: unknown): value is string {
  return typeof value === 'string' && TOKEN.test(value);
}

/** True for an address of this machine, which a service on one machine may call and a deployed one may not. */
export function isLoopbackUrl(url: string): boolean {
  return /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(\/|$)/.test(url);
}

/** As a client checks it, which does not know the targets. @throws bad_request */
export function assertNotified({ notify, taskToken }: Unchecked<Notified>): Notified {
  if (notify !== undefined && !isTargetName(notify)) throw badRequest(`notify: expected ${NAME_RULE}`);
  if (taskToken === undefined) return { notify };
  if (!isTaskToken(taskToken))
    throw badRequest(
      `taskToken: expected the token of a task of Step Functions, of at most ${TASK_TOKEN_LENGTH} characters`,
    );
  if (notify !== undefined) return { notify, taskToken };
  throw badRequest('taskToken: needs notify, the name of a target with stepFunctions');
}

/** @param targets those of the job. @throws bad_request */
export function assertTarget(given: Unchecked<Notified>, targets: Targets): Notified {
  const notified = assertNotified(given);
  const { notify, taskToken } = notified;
  if (notify === undefined) return {};
  if (!Object.hasOwn(targets, notify)) throw unknownTarget(notify, Object.keys(targets));
  const isTask = targets[notify]?.stepFunctions !== undefined;
  if (isTask && taskToken === undefined)
    throw badRequest(`notify: "${notify}" ends a task of Step Functions; give its token as taskToken`);
  if (!isTask && taskToken !== undefined)
    throw badRequest(`taskToken: the target "${notify}" has no stepFunctions; leave the token out`);
  return notified;
}

function unknownTarget(name: string, names: readonly string[]): ServingError {
  const near = suggest(name, names);
  const known = names.length === 0 ? 'the job has none' : `known are ${names.join(', ')}`;
  const hint = near === undefined ? known : `did you mean "${near}"?`;
  return badRequest(`notify: no target "${name}" in the job's config.yaml; ${hint}`);
}
