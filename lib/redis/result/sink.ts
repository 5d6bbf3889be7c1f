/** The end of the path of a queued record: its outcome is postprocessed and saved as its result in Redis. */
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

/** A key that holds something else takes no result: its message comes again, and its neighbours are saved. */
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
