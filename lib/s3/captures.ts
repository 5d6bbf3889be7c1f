/**
 * Objects of captures: `captures/<job>/<version>/<day>/<time>-<id>.ndjson.gz`, whose first line says what the others have in common. A key
 * begins with the time at which the object was written, so that a listing is in the order of time. Those of a further model lie in
 * `captures/<job>/named/<name>/`: two models with the same files have the same version.
 */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { headerLine } from '../codecs/capture/write.ts';
import type { CaptureHeader } from '../contract/capture.ts';
import { capturesPrefix } from '../contract/names.ts';
import { putBytes, type S3Client } from './objects.ts';

const PUT_MS = 5_000;
const ATTEMPTS = 2;
const zip = promisify(gzip);

interface CaptureWriterOptions {
  readonly bucket: string;
  /** Wall clock in ms. */
  readonly now: () => number;
  /** Tells the objects of this environment from those of others. */
  readonly id: string;
}

export class CaptureWriter {
  readonly #s3: S3Client;
  readonly #options: CaptureWriterOptions;
  #count = 0;

  constructor(s3: S3Client, options: CaptureWriterOptions) {
    this.#s3 = s3;
    this.#options = options;
  }

  /** @throws S3's error */
  async put(header: CaptureHeader, lines: readonly string[]): Promise<void> {
    const { bucket, now, id } = this.#options;
    const time = new Date(now()).toISOString();
    const name = `${time.slice(11, 23).replace(/\D/g, '')}-${id}-${this.#count++}`;
    const key = `${capturesPrefix(header.job, header.model)}${header.version}/${time.slice(0, 10)}/${name}.ndjson.gz`;
    const body = await zip(`${[headerLine(header), ...lines].join('\n')}\n`);
    for (let attempt = 1; ; attempt++) {
      const abortSignal = AbortSignal.timeout(PUT_MS);
      try {
        return await putBytes(this.#s3, { bucket, key }, body, { type: 'application/gzip', abortSignal });
      } catch (error) {
        // A process that was frozen goes on with a connection that is gone and a time limit that has passed.
        if (attempt === ATTEMPTS) throw error;
      }
    }
  }
}
