/**
 * Logs what an operator should read: messages that are delivered again, and failures with status 500 and above. A record that
 * failed because of its own content is not logged.
 */
import { logError } from '../contract/log.ts';
import type { Observer } from '../pipeline/observer.ts';

export const FAILURES: Observer = {
  resultRefused: ({ error, messageId, traceId }) => logError(error, { messageId, trace_id: traceId }),
  chunkServed({ finished, returned }) {
    for (const { id, error, trace } of returned) logError(error, { messageId: id, trace_id: trace?.traceId });
    for (const { uri, enqueue, outcome } of finished) {
      if (!outcome.ok && outcome.error.status >= 500)
        logError(outcome.error, { uri, trace_id: enqueue.trace?.traceId });
    }
  },
  eventFailed: ({ error, messages }) => logError(error, { messages }),
};
