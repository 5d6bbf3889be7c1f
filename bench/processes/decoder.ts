/** Decodes images in a process of its own, on the core that OpenCV has in its turn. */
import { readFile } from 'node:fs/promises';
import { decodeImage } from '../../lib/codecs/image/image.ts';
import { serveParent } from './child.ts';

const methods = {
  /** @returns ms of each time, and the pixels of the last */
  async decode({ path, times }: { readonly path: string; readonly times: number }) {
    const file = await readFile(path);
    const taken: number[] = [];
    let data: Uint8Array = new Uint8Array();
    for (let time = 0; time < times; time++) {
      const begin = performance.now();
      ({ data } = await decodeImage(file));
      taken.push(performance.now() - begin);
    }
    return { taken, pixels: data };
  },
};

export type DecoderProcess = typeof methods;

if (import.meta.main) serveParent(methods);
