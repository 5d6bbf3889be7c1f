/** The last step of a queued record: postprocesses its outcome and saves it in the store, or in S3 what is too large for it. */

import { ServingError } from '../contract/errors.ts';
import { logError } from '../contract/log.ts';
import { elementAt } from '../contract/present.ts';
import type { Timers } from '../metrics/timers.ts';
import type { Observer } from '../pipeline/observer.ts';
import type { Sink } from '../pipeline/serve.ts';
import { type SerializeSettings, serializeResults } from './large.ts';
import type { Finished, Results } from './store.ts';

interface SaveSettings extends SerializeSettings {
  /** Saved in the same round trip. */
  readonly timers?: Timers;
  readonly observer?: Observer;
}

/**
 * A record that cannot have a result, or whose large result S3 does not take, is not saved: its message is delivered
 * again, and the others are saved.
 */
export function resultSink(results: Pick<Results, 'save'>, settings: SaveSettings = {}): Sink {
  return {
    async save(finished, model) {
      const unsaved = new Set<string>();
      const serialized = await serializeResults(finished, model, settings);
      const saved: Finished[] = [];
      for (const [i, { id, enqueue, uri }] of finished.entries()) {
        const fields = elementAt(serialized, i, 'serialized');
        if (!(fields instanceof ServingError)) saved.push({ uri, fields, enqueue });
        else {
          unsaved.add(id);
          const traceId = enqueue.trace?.traceId;
          settings.observer?.resultRefused?.({ error: fields, messageId: id, traceId });
        }
      }
      const blocked = new Set<string>();
      await results.save(saved, model, settings.timers, (uri, error) => {
        blocked.add(uri);
        logError(error, { messageId: finished.find((record) => record.uri === uri)?.id });
      });
      const again = finished.filter(({ id, uri }) => unsaved.has(id) || blocked.has(uri)).map(({ id }) => id);
      settings.observer?.recordsStored?.({ finished, unsaved: again, model });
      return again;
    },
  };
}
