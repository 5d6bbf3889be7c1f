/** `capture list`. */
import { readHeader } from '../../lib/codecs/capture/read.ts';
import type { CapturedObject, CaptureFilter, CaptureReader } from '../../lib/s3/capture-reader.ts';
import { EXIT, type Output } from '../output.ts';
import { lostText } from './lost.ts';

interface Day {
  /** The name of a further model. */
  readonly model?: string | undefined;
  readonly version: string;
  readonly day: string;
  readonly objects: number;
  readonly bytes: number;
}

interface Last {
  readonly reader: CaptureReader;
  readonly object: CapturedObject;
}

/** @param counted how many are lost, where the service says it: what was stored last does not know of what was refused since */
export async function listCaptures(
  readers: readonly CaptureReader[],
  filter: CaptureFilter,
  output: Output,
  counted?: number,
): Promise<number> {
  const days = new Map<string, Day>();
  /** An environment counts what it lost since its start, so its last object of a day has the sum. */
  const last = new Map<string, Last>();
  for (const reader of readers) {
    const { model } = reader.captured;
    for await (const page of reader.pages(filter)) {
      for (const object of page) {
        const day = new Date(object.writtenAt).toISOString().slice(0, 10);
        const id = `${model ?? ''} ${object.version} ${day}`;
        const known = days.get(id) ?? { model, version: object.version, day, objects: 0, bytes: 0 };
        days.set(id, { ...known, objects: known.objects + 1, bytes: known.bytes + object.bytes });
        const environment = environmentOf(object);
        const before = last.get(environment)?.object.writtenAt ?? 0;
        if (object.writtenAt >= before) last.set(environment, { reader, object });
      }
    }
  }
  let lost = counted ?? 0;
  if (counted === undefined)
    for (const { reader, object } of last.values()) lost += await lostOf(reader, object);
  const list = [...days.values()];
  const wide = Math.max(0, ...list.map(({ model = '' }) => model.length));
  const rows = list.map(
    ({ model = '', version, day, objects, bytes }) =>
      `${wide === 0 ? '' : `${model.padEnd(wide)}  `}${version.padEnd(14)}${day}  ${String(objects).padStart(8)} objects  ${(bytes / 1e6).toFixed(1)} MB`,
  );
  const missing = lost > 0 ? [lostText(lost)] : [];
  const text = rows.length === 0 ? ['nothing was captured: `capture.share` in config.yaml'] : rows;
  output.answer({ captures: list, lost }, [...text, ...missing].join('\n'));
  return EXIT.ok;
}

/** `093000123-0a1b2c3d-4.ndjson.gz` */
function environmentOf({ key }: CapturedObject): string {
  return key.split('-').at(-2) ?? key;
}

async function lostOf(reader: CaptureReader, object: CapturedObject): Promise<number> {
  for await (const line of reader.lines(object)) {
    try {
      return 'text' in line ? readHeader(line.text).lost : 0;
    } catch {
      return 0;
    }
  }
  return 0;
}
