/**
 * Logs what an operator should read: messages that are delivered again, and failures with status 500 and above. A record that
 * failed because of its own content is not logged.
 */
import type { ServingError } from '../contract/errors.ts';
import { logError } from '../contract/log.ts';
import type { TraceContext } from '../contract/trace.ts';
import type { Observer } from '../pipeline/observer.ts';

export const FAILURES: Observer = {
  resultRefused: ({ error, messageId, traceId, model }) =>
    logError(error, { messageId, trace_id: traceId, model_version: model }),
  chunkServed({ version, finished, returned }) {
    const log = (error: ServingError, trace: TraceContext | undefined, about: object) =>
      logError(error, { ...about, trace_id: trace?.traceId, model_version: version });
    for (const { id, error, trace } of returned) log(error, trace, { messageId: id });
    for (const { uri, enqueue, outcome } of finished) {
      if (!outcome.ok && outcome.error.status >= 500) log(outcome.error, enqueue.trace, { uri });
    }
  },
  eventFailed: ({ error, messages }) => logError(error, { messages }),
};
