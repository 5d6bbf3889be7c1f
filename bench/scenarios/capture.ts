/**
 * The time that capturing adds to a request, with a share of 1 and one of 5 %: each request as Lambda calls it, with the observers that it
 * passes before its answer. Objects go to the S3 of this machine by the AWS SDK, which answers sooner than the one of Amazon.
 */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { RUNTIME } from '../../lib/compose/onnx.ts';
import { capturesPrefix, DEFAULT_JOB_NAME } from '../../lib/contract/names.ts';
import { elementAt } from '../../lib/contract/present.ts';
import { Capture } from '../../lib/observe/capture.ts';
import { CaptureWriter } from '../../lib/s3/captures.ts';
import { listPages } from '../../lib/s3/pages.ts';
import { addedRows } from '../added.ts';
import type { Bench, Scenario } from '../bench.ts';
import { type Contender, interleave, type Measured } from '../measure.ts';
import { type BenchModel, randomRows } from '../models.ts';
import type { Line, Row } from '../report.ts';
import { CONTEXT, nestedNumbers, predictEvent, type Served, serve } from '../served.ts';

const REPEAT_MS = 600;
const INPUTS = 16;
const BUCKET = 'captures';
const SHARES = [1, 0.05] as const;
/** The price of a write of S3 in us-east-1, in dollars. */
const WRITE_DOLLARS = 5e-6;

export const capture: Scenario = {
  name: 'capture',
  about: 'time that capturing adds to a request of POST /predict, bytes and dollars',
  async run(bench) {
    const lines: Line[] = [];
    const model = await bench.model('mlp');
    for (const share of SHARES) {
      const name = `MLP, 64 floats as JSON, share ${share}`;
      if (bench.wants(name)) lines.push(...(await measureShare(bench, model, share, name)));
    }
    return lines;
  },
};

async function measureShare(bench: Bench, model: BenchModel, share: number, name: string): Promise<Row[]> {
  const aws = await bench.aws();
  await aws.createBucket(BUCKET);
  const id = `share${share * 100}`;
  const counts = { lines: 0 };
  const writer = new CaptureWriter(aws.s3, { bucket: BUCKET, now: Date.now, id });
  const observer = captureTo(writer, { job: DEFAULT_JOB_NAME, version: id, share }, counts);
  const { url } = await bench.redis();
  const [off, on, again] = [[], [observer], []].map((observers) =>
    serve(model, url, { batchSize: 1, observers }),
  );
  const events = randomRows(31, model.rowShape, INPUTS).map((row) =>
    predictEvent(JSON.stringify({ instances: [{ [model.input]: nestedNumbers(row, model.rowShape) }] })),
  );
  try {
    const contenders = [
      contender('off', off, events),
      contender('on', on, events, observer),
      contender('off again', again, events),
    ];
    const measured = await interleave(contenders, {
      repeats: bench.repeats,
      repeatMs: bench.ms(REPEAT_MS),
    });
    await observer.close();
    let [bytes, objects] = [0, 0];
    for await (const page of listPages(aws.s3, BUCKET, `${capturesPrefix(DEFAULT_JOB_NAME)}${id}/`))
      for (const object of page) {
        bytes += object.bytes;
        objects++;
      }
    return rowsOf(name, measured, { perLine: bytes / counts.lines, perWrite: counts.lines / objects, share });
  } finally {
    for (const served of [off, on, again]) await served?.close();
  }
}

/** @param counts how many lines were stored */
export function captureTo(
  writer: CaptureWriter,
  { job, version, share }: { readonly job: string; readonly version: string; readonly share: number },
  counts: { lines: number },
): Capture {
  const runtime = { ...RUNTIME, threads: 1 };
  const header = { capture: 1, job, settings: {}, runtime } as const;
  return new Capture({
    share,
    include: [],
    leaveOut: [],
    failures: true,
    now: Date.now,
    isFrozen: true,
    onLost: (requests) => {
      throw new Error(`${requests} requests were not captured`);
    },
    put: async ({ lines, lost }) => {
      counts.lines += lines.length;
      await writer.put({ ...header, version, lost }, lines);
    },
  });
}

let requests = 0;

function contender(
  name: string,
  served: Served | undefined,
  events: readonly APIGatewayProxyEventV2[],
  own?: Capture,
): Contender {
  return {
    name,
    async call(index) {
      const awsRequestId = `request-${requests++}`;
      own?.functionCalled({ ids: {}, messages: undefined, bytes: () => 0 });
      const event = elementAt(events, index % events.length, 'events');
      const answer = await served?.predict(event, { ...CONTEXT, awsRequestId });
      await own?.flush();
      return answer;
    },
    verify: (answers) => {
      if (!answers.every((answer) => Object(answer).statusCode === 200))
        throw new Error(`${name}: not answered`);
    },
  };
}

interface Stored {
  /** Bytes of S3 for a captured request. */
  readonly perLine: number;
  /** Captured requests of one object. */
  readonly perWrite: number;
  readonly share: number;
}

function rowsOf(name: string, measured: readonly Measured[], { perLine, perWrite, share }: Stored): Row[] {
  const [off, on, control] = [0, 1, 2].map((i) => elementAt(measured, i, 'measured'));
  if (!off || !on || !control) throw new Error('three were measured');
  const dollars = (1e6 * share * WRITE_DOLLARS) / perWrite;
  const stored = `${perLine.toFixed(0)} bytes a captured request; ${dollars.toFixed(3)} dollars of writes a million requests`;
  return addedRows('capture', name, { off, on, control }, stored);
}
