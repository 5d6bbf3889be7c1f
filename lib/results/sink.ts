/** The last step of a queued record: postprocesses its outcome and saves it in the store, or in S3 what is too large for it. */

import { ServingError } from '../contract/errors.ts';
import { logError, logWarning } from '../contract/log.ts';
import { elementAt } from '../contract/present.ts';
import type { Timers } from '../metrics/timers.ts';
import type { Observer } from '../pipeline/observer.ts';
import type { Sink } from '../pipeline/serve.ts';
import type { Announce, StoredOutcomes, StoredRecord } from './announce.ts';
import { type SerializeSettings, serializeResults } from './large.ts';
import type { Results } from './store.ts';

interface SaveSettings extends SerializeSettings {
  /** Saved in the same round trip. */
  readonly timers?: Timers;
  readonly observer?: Observer;
  /** Tells the targets that records name. Undefined: the job has none. */
  readonly announce?: Announce | undefined;
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
      const saved: StoredRecord[] = [];
      for (const [i, { id, enqueue, uri }] of finished.entries()) {
        const fields = elementAt(serialized, i, 'serialized');
        if (!(fields instanceof ServingError)) saved.push({ id, uri, fields, enqueue });
        else {
          unsaved.add(id);
          const traceId = enqueue.trace?.traceId;
          settings.observer?.resultRefused?.({ error: fields, messageId: id, traceId, model });
        }
      }
      const blocked = new Set<string>();
      const finishedAt = Date.now();
      const written = await results.save(saved, model, settings.timers, (uri, error) => {
        blocked.add(uri);
        const messageId = finished.find((record) => record.uri === uri)?.id;
        logError(error, { messageId, model_version: model });
      });
      const again = finished.filter(({ id, uri }) => unsaved.has(id) || blocked.has(uri)).map(({ id }) => id);
      settings.observer?.recordsStored?.({ finished, unsaved: again, model });
      if (!finished.some(({ enqueue }) => enqueue.notify !== undefined)) return again;
      const records = saved.filter(({ uri }) => !blocked.has(uri));
      const areNew = written === records.length;
      return [...again, ...(await announced({ records, model, finishedAt, areNew }, settings))];
    },
  };
}

async function announced(stored: StoredOutcomes, { announce }: SaveSettings): Promise<readonly string[]> {
  if (announce) return announce(stored);
  logWarning('records name a target to notify, and the job has none: `notify` in config.yaml');
  return [];
}
