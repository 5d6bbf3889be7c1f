/** How long an image takes to decode, beside OpenCV with one thread: the two take turns on the servers' core, in short blocks. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Bench, Scenario } from '../bench.ts';
import { pinned } from '../cores.ts';
import { makeImage } from '../images.ts';
import { pairwise, spreadOf } from '../measure.ts';
import { type InstalledPeer, installedPeer, NOT_INSTALLED } from '../peers/installed.ts';
import { startChild } from '../processes/child.ts';
import type { DecoderProcess } from '../processes/decoder.ts';
import { bytesText, type Line } from '../report.ts';

const SIZES = [
  [96, 96],
  [500, 375],
] as const;
const FORMATS = ['png', 'jpeg'] as const;
const BLOCK_MS = 20;
const BLOCKS = 8;
const WARM_UPS = 20;

type Decode = (path: string, times: number) => Promise<{ taken: readonly number[]; pixels: Uint8Array }>;

export const decode: Scenario = {
  name: 'decode',
  about: 'a PNG and a JPEG, beside OpenCV',
  async run(bench) {
    const peer = installedPeer('lambda-python');
    if (!peer)
      return [{ scenario: 'decode', name: 'images of 500x375 against OpenCV', skipped: NOT_INSTALLED }];
    bench.addPeer(peer);
    const child = await startChild<DecoderProcess>('decoder', { role: 'server' });
    const opencv = startOpenCv(peer, join(bench.folder, 'pixels'));
    const ways = [
      (path: string, times: number) => child.call('decode', { path, times }),
      opencv.decode,
    ] as const;
    try {
      const lines: Line[] = [];
      for (const [width, height] of SIZES)
        for (const format of FORMATS) lines.push(await measureFormat(bench, ways, format, width, height));
      return lines;
    } finally {
      await child.close();
      await opencv.close();
    }
  },
};

async function measureFormat(
  bench: Bench,
  ways: readonly [Decode, Decode],
  format: (typeof FORMATS)[number],
  width: number,
  height: number,
): Promise<Line> {
  const image = await makeImage(300, width, height);
  const path = join(bench.folder, `decode-${width}.${format}`);
  await writeFile(path, image[format]);
  const ms: [number[], number[]] = [[], []];
  let times = 1;
  for (const way of ways) {
    const { taken, pixels } = await way(path, WARM_UPS);
    const most = image[`${format}Pixels`].reduce(
      (m, value, i) => Math.max(m, Math.abs(value - (pixels[i] ?? -999))),
      0,
    );
    if (most > 0) throw new Error(`${path}: other pixels, by ${most}`);
    times = Math.max(times, Math.round(BLOCK_MS / spreadOf(taken).median));
  }
  for (let repeat = 0; repeat < bench.repeats; repeat++) {
    const taken: [number[], number[]] = [[], []];
    for (let block = 0; block < bench.ms(BLOCKS); block++)
      for (const i of block % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const))
        taken[i].push(...(await ways[i](path, times)).taken);
    for (const i of [0, 1] as const) ms[i].push(spreadOf(taken[i]).median);
  }
  const [ours, theirs] = ms;
  return {
    scenario: 'decode',
    name: `${format.toUpperCase()} of ${width}x${height}, ${bytesText(image[format].length)}, against OpenCV`,
    metric: 'times OpenCV',
    unit: 'x',
    raw: spreadOf(theirs).median,
    ours: spreadOf(ours).median,
    baseUnit: 'ms',
    value: pairwise(ours, theirs, (a, b) => a / b),
  };
}

/** A question is a line of JSON, and so is its answer; the pixels come in a file. */
function startOpenCv({ folder, source }: InstalledPeer, pixelsFile: string) {
  const python = join(folder, 'venv', 'bin', 'python');
  const [command, args] = pinned('server', python, [join(source, 'decode.py')]);
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const decodeThere: Decode = async (path, times) => {
    child.stdin.write(`${JSON.stringify({ path, times, pixels: pixelsFile })}\n`);
    const { value, done } = await lines.next();
    if (done) throw new Error('the process of OpenCV ended');
    return { taken: JSON.parse(value) as number[], pixels: await readFile(pixelsFile) };
  };
  const close = async () => {
    const ended = child.exitCode === null ? once(child, 'exit') : undefined;
    child.stdin.end();
    await ended;
  };
  return { decode: decodeThere, close };
}
