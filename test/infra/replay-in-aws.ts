/** `model replay --in-aws` as a person types it: the stack is looked up, and the packaged function replays. */
import assert from 'node:assert/strict';
import { captureLine } from '../../lib/codecs/capture/write.ts';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { RUNTIME } from '../../lib/compose/onnx.ts';
import { answerSettings } from '../../lib/config/job.ts';
import { CaptureWriter } from '../../lib/s3/captures.ts';
import type { LocalAws } from '../../local/aws/aws.ts';
import { cliJson } from '../cli/cli.ts';
import { parseConfig } from '../support/config.ts';
import { type Hooks, temporaryFolder } from '../support/runner.ts';
import { startLambda } from '../support/stand-in-lambda.ts';
import { startStandIn } from '../support/stand-in-stack.ts';
import type { Artifact } from './artifact.ts';
import { BUCKET } from './deployed.ts';

const JOB = 'day';
const STACK = 'cluster-serving-day-dev';

interface World {
  /** The version that serves, which answers x with x_out. */
  readonly version: string;
  readonly artifact: Artifact;
  readonly aws: LocalAws;
}

export async function assertReplayed(t: Hooks, { version, artifact, aws }: World): Promise<void> {
  const places = {
    HttpApiUrl: 'https://x',
    QueueUrl: 'https://q',
    BucketName: BUCKET,
    JobName: JOB,
    Auth: 'iam',
  };
  const stacks = await startStandIn(t, { [STACK]: { outputs: places }, other: { outputs: places } });
  const lambda = await startLambda(t, { [`${STACK}-trials`]: (event) => artifact.invoke(event) });
  const env = {
    ...aws.environment,
    AWS_ENDPOINT_URL_CLOUDFORMATION: stacks.url,
    AWS_ENDPOINT_URL_LAMBDA: lambda.url,
  };
  const cwd = await temporaryFolder(t);
  const replay = (...args: string[]) => cliJson(['model', 'replay', ...args, '--in-aws'], { env, cwd });

  const none = await replay('--stack', STACK);
  assert.equal(none.code, 1);
  assert.match(none.stderr, /nothing was captured of the job day/);
  await capture(aws, version);
  const found = await replay('--stack', STACK, '--by', 'x');
  assert.equal(found.code, 1, found.stderr);
  assert.partialDeepStrictEqual(found.json, {
    lines: 2,
    versions: { [version]: 2 },
    compared: 2,
    tolerance: { records: 2, differ: 1 },
    worst: [{ id: 'wrong' }],
    slices: [{ records: 2, differ: 1 }],
    problems: ['1 of 2 answers differ by more than 0.0001 of the spread'],
  });

  for (const [args, wrong] of [
    [['./model', '--stack', STACK], /asks a stored version.*model push --no-activate/],
    [['--bucket', 'b', '--stack', STACK], /without --bucket/],
    [[], /which deployment\? Give --stack/],
    [['0123456789ab', '--stack', STACK], /version 0123456789ab: there is none/],
    [['--stack', 'other'], /no function that replays; set `release: \{trials: true\}`/],
  ] as const) {
    const { code, stderr } = await replay(...args);
    assert.notEqual(code, 0, args.join(' '));
    assert.match(stderr, wrong);
  }
  for (const question of [{ version: '../x' }, { filter: { since: 'now' } }, { by: 7 }])
    await assert.rejects(artifact.invoke({ replay: question }), /replay: expected/);
}

/** A record that was answered as the version does, and one that was not. */
async function capture({ s3 }: LocalAws, version: string): Promise<void> {
  const settings = answerSettings(parseConfig(`jobName: ${JOB}`, 'test'));
  const header = {
    capture: 1,
    job: JOB,
    version,
    settings,
    runtime: { ...RUNTIME, threads: 1 },
    lost: 0,
  } as const;
  const [record] = decodeInstances('{"instances": [{"x": [2]}]}');
  assert.ok(record);
  const line = (value: number, id: string) => {
    const output = { name: 'x_out', dtype: 'float32', shape: [1], data: Float32Array.of(value) } as const;
    const facts = { at: Date.now(), source: 'queue', id } as const;
    return captureLine(facts, [record], [{ ok: true, outputs: [output] }], { include: [], leaveOut: [] });
  };
  const writer = new CaptureWriter(s3, { bucket: BUCKET, now: Date.now, id: '0a1b2c3d' });
  await writer.put(header, [line(2, 'right'), line(3, 'wrong')]);
}
