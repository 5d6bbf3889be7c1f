/**
 * Tasks of Step Functions that wait for their tokens, after the documented API: its limits, and its errors for tokens that it does
 * not know and for tasks that have ended. Signatures are verified.
 */

import type { Hooks } from './runner.ts';
import { SIGNED_REGION, startSignedApi } from './signed-api.ts';

export const STATE_MACHINE = `arn:aws:states:${SIGNED_REGION}:123456789012:stateMachine:orders`;

interface Input {
  readonly taskToken?: unknown;
  readonly output?: unknown;
  readonly error?: unknown;
  readonly cause?: unknown;
}

/** How a task ended. */
export interface TaskEnd {
  readonly output?: string;
  readonly error?: string;
  readonly cause?: string;
}

export interface Tasks {
  readonly url: string;
  /** Undefined for a task that still waits. */
  readonly tasks: Map<string, TaskEnd | undefined>;
  /** Calls, with the repeated ones. */
  calls: number;
}

/** @param tokens of the tasks that wait. @param isAway true for a call that is answered with 503, or done and not answered */
export async function startStepFunctions(
  t: Hooks,
  tokens: Iterable<string>,
  isAway: () => boolean = () => false,
): Promise<Tasks> {
  const tasks = new Map<string, TaskEnd | undefined>(Array.from(tokens, (token) => [token, undefined]));
  const api = await startSignedApi(t, {
    service: 'states',
    behind: ({ headers, body }) => {
      found.calls++;
      if (isAway()) return new Response('', { status: 503 });
      const answer = ended(String(headers['x-amz-target']), JSON.parse(body.toString()) as Input, tasks);
      if (isAway()) return new Response('', { status: 500 });
      return answer;
    },
  });
  const found: Tasks = { url: api.url, tasks, calls: 0 };
  return found;
}

function ended(action: string, input: Input, tasks: Tasks['tasks']): Response {
  const { taskToken, output, error, cause } = input;
  const isSuccess = action === 'AWSStepFunctions.SendTaskSuccess';
  if (!isSuccess && action !== 'AWSStepFunctions.SendTaskFailure')
    return refused('UnknownOperationException');
  if (!isText(taskToken, 1, 2_048)) return refused('ValidationException');
  const isValid = isSuccess ? isText(output, 0, 262_144) : isText(error, 0, 256) && isText(cause, 0, 32_768);
  if (!isValid) return refused('ValidationException');
  if (!tasks.has(taskToken)) return refused('InvalidToken');
  if (tasks.get(taskToken) !== undefined) return refused('TaskTimedOut');
  if (!isSuccess) tasks.set(taskToken, { error: String(error), cause: String(cause) });
  else {
    try {
      JSON.parse(String(output));
    } catch {
      return refused('InvalidOutput');
    }
    tasks.set(taskToken, { output: String(output) });
  }
  return Response.json({});
}

function isText(value: unknown, least: number, most: number): value is string {
  return typeof value === 'string' && value.length >= least && Buffer.byteLength(value) <= most;
}

function refused(code: string): Response {
  return Response.json(
    { __type: `com.amazonaws.swf.service.v2.model#${code}`, message: 'why' },
    { status: 400 },
  );
}
