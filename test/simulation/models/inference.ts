/**
 * The model of onnxruntime: a file names its version, and the answer to a record is the record's number and the version,
 * so that an answer of another record or version is seen. A run keeps the thread busy; some records end the process in
 * which they run, and some never end.
 */
import { elementAt } from '../../../lib/contract/present.ts';
import type { SimulatedProcess } from '../machine/process.ts';

/** The effects of a record on the model that runs it. */
export const KINDS = ['good', 'fails', 'crashes', 'endless', 'slow'] as const;
export type Kind = (typeof KINDS)[number];

export interface InferenceHooks {
  /** Ms that the thread is busy with it. */
  readonly openMs: (process: SimulatedProcess) => number;
  readonly runMs: (process: SimulatedProcess) => number;
  readonly slowMs: number;
  readonly onOpen: (process: SimulatedProcess, version: number, open: number) => void;
  readonly onRun: (process: SimulatedProcess, records: readonly number[]) => void;
}

/** The file of a version. It begins as an ONNX file does. */
export function modelFile(version: number, bytes = 4_000): Buffer {
  return Buffer.concat([Buffer.from([0x08, 0x0a]), Buffer.from(`version ${version}.`.padEnd(bytes, '.'))]);
}

function versionIn(file: Buffer): number {
  const [, version] = /^..version (\d+)\./s.exec(file.toString('latin1')) ?? [];
  if (version === undefined) throw new Error('protobuf parsing failed');
  return Number(version);
}

class FakeTensor {
  readonly type: string;
  readonly data: unknown;
  readonly dims: readonly number[];

  constructor(type: string, data: unknown, dims: readonly number[]) {
    this.type = type;
    this.data = data;
    this.dims = dims;
  }
}

interface Feed {
  readonly data: Float32Array;
}

/** The module `onnxruntime-node`. */
export function onnxModule(process: SimulatedProcess, hooks: InferenceHooks) {
  let open = 0;
  /** The thread is busy; what was asked for is there as soon as it is free. */
  const busy = (ms: number) =>
    new Promise<void>((resolve) => {
      process.block(ms);
      process.machine.scheduler.after(
        process.busyUntil - process.machine.scheduler.nowMs,
        process,
        resolve,
        true,
      );
    });

  class Session {
    readonly version: number;
    readonly inputNames = ['x'];
    readonly outputNames = ['y'];
    readonly inputMetadata = [{ name: 'x', isTensor: true, type: 'float32', shape: ['N', 2] }];
    readonly outputMetadata = [{ name: 'y', isTensor: true, type: 'float32', shape: ['N', 2] }];

    constructor(version: number) {
      this.version = version;
    }

    async run({ x }: Readonly<Record<'x', Feed>>) {
      const rows = x.data.length / 2;
      const numbers = Array.from({ length: rows }, (_, i) => elementAt(x.data, 2 * i, 'x'));
      const kinds = new Set(numbers.map((_, i) => KINDS[elementAt(x.data, 2 * i + 1, 'x')]));
      hooks.onRun(process, numbers);
      if (kinds.has('crashes')) {
        process.after(0, () => process.end('SIGSEGV'));
        process.block(1);
        return new Promise<never>(() => undefined);
      }
      if (kinds.has('endless')) {
        process.block(Number.POSITIVE_INFINITY);
        return new Promise<never>(() => undefined);
      }
      await busy(hooks.runMs(process) + (kinds.has('slow') ? hooks.slowMs : 0));
      if (kinds.has('fails')) throw new Error('Non-zero status code returned while running Gather node');
      const y = Float32Array.from(numbers.flatMap((number) => [number, this.version]));
      return { y: new FakeTensor('float32', y, [rows, 2]) };
    }

    async release(): Promise<void> {
      open--;
    }
  }

  return {
    env: { versions: { common: '1.30.0' }, logLevel: 'fatal' },
    Tensor: FakeTensor,
    InferenceSession: {
      async create(file: string | Uint8Array) {
        if (typeof file !== 'string') return { release: async () => undefined };
        const version = versionIn(process.disk.fs.readFileSync(file) as Buffer);
        await busy(hooks.openMs(process));
        hooks.onOpen(process, version, ++open);
        return new Session(version);
      },
    },
  };
}
