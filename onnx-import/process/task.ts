/** What is done with a model where a crash does no harm: its name, for the process, and what loads and calls its code. */
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';

export interface Task<Request extends object, Answer> {
  /** Unique in a process. */
  readonly name: string;
  /** Loads its code on demand, because the parent process needs no onnxruntime. */
  readonly run: (request: Request) => Promise<Answer>;
}

/** What goes over the channel. */
export interface TaskRequest {
  readonly name: string;
  readonly request: object;
  /** Writes what runs to stderr, because a request like this one ended its process. */
  readonly isTraced?: boolean;
}

export type TaskAnswer = { readonly done: unknown } | { readonly failed: ErrorRecord };

export async function answerOf(
  run: (request: never) => Promise<unknown>,
  { request, isTraced }: TaskRequest,
): Promise<TaskAnswer> {
  try {
    if (isTraced) {
      const [{ observeRuns }, { traceRun }] = await Promise.all([
        import('../../lib/inference/session.ts'),
        import('./crash.ts'),
      ]);
      observeRuns(traceRun);
    }
    return { done: await run(request as never) };
  } catch (error) {
    const { code, message } = ServingError.from(error);
    return { failed: { code, message } };
  }
}
