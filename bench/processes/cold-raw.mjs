/**
 * In: a model's path, its input's name and a row's file. Out: on the parent's channel, the model's answer: the least
 * that a process can do before it has one. Trap: the same session options as bench/raw.ts.
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
// Lives on until it is ended: who asked reads its processor time.
process.send(Array.from(outputs.scores.data));
process.channel.ref();
