/** The last step of a queued record: postprocesses its outcome and saves it in Redis. */
import { logError } from '../../contract/log.ts';
import type { Timers } from '../../metrics/timers.ts';
import type { Filter } from '../../pipeline/postprocess.ts';
import type { Sink } from '../../pipeline/serve.ts';
import type { ResultStore } from '../results.ts';
import { serializeResult } from './fields.ts';

interface SaveSettings {
  readonly filter?: Filter | undefined;
  /** Saved in the same round trip. */
  readonly timers?: Timers;
}

/** A record whose key has another type is not saved: its message is delivered again, and the others are saved. */
export function resultSink(results: Pick<ResultStore, 'save'>, { filter, timers }: SaveSettings = {}): Sink {
  return {
    async save(finished, model) {
      const blocked = new Set<string>();
      const fields = finished.map(({ id, enqueue, uri, outcome }) => ({
        uri,
        fields: serializeResult(outcome, filter),
        message: id,
        enqueue,
      }));
      await results.save(fields, model, timers, (uri, error) => {
        blocked.add(uri);
        logError(error, { messageId: finished.find((record) => record.uri === uri)?.id });
      });
      return finished.filter(({ uri }) => blocked.has(uri)).map(({ id }) => id);
    },
  };
}
