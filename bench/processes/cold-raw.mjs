/**
 * Opens a model, runs it on one row and sends its answer to the parent: the least that a process can do before it has one.
 * The session has the options of bench/raw.ts.
 */
import { readFileSync } from 'node:fs';
import { InferenceSession, Tensor } from 'onnxruntime-node';

const [path, input, rowFile] = process.argv.slice(2);
const session = await InferenceSession.create(path, {
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  executionMode: 'sequential',
  graphOptimizationLevel: 'all',
  logSeverityLevel: 4,
  extra: { session: { intra_op: { allow_spinning: '0' } } },
});
const row = Float32Array.from(JSON.parse(readFileSync(rowFile, 'utf8')));
const outputs = await session.run({ [input]: new Tensor('float32', row, [1, row.length]) });
// Lives on until it is killed: the parent reads its processor time.
process.send(Array.from(outputs.scores.data));
process.channel.ref();
