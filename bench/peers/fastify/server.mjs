/**
 * fastify and onnxruntime-node as their documentation has them: a route with a response schema, which fastify compiles
 * into a serialiser. onnxruntime-node is the project's own, so that the engine is the very same.
 */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { InferenceSession, Tensor } from 'onnxruntime-node';

const { BENCH_INSTALLED, BENCH_MODEL, BENCH_INPUT, BENCH_ROW_SHAPE, BENCH_PORT } = process.env;
const installed = createRequire(`${BENCH_INSTALLED}/package.json`);
const { default: fastify } = await import(pathToFileURL(installed.resolve('fastify')).href);

const session = await InferenceSession.create(BENCH_MODEL, {
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  extra: { session: { intra_op: { allow_spinning: '0' } } },
});
const rowShape = JSON.parse(BENCH_ROW_SHAPE);
const rowLength = rowShape.reduce((product, dim) => product * dim, 1);
const depth = rowShape.length;

const predictions = { type: 'array', items: { type: 'array', items: { type: 'number' } } };
const schema = { response: { 200: { type: 'object', properties: { predictions } } } };

const app = fastify({ bodyLimit: 6 * 1024 * 1024 });
app.post('/predict', { schema }, async (request) => {
  const { instances } = request.body;
  const data = new Float32Array(instances.length * rowLength);
  for (const [i, instance] of instances.entries()) {
    const row = instance[BENCH_INPUT];
    data.set(depth > 1 ? row.flat(depth - 1) : row, i * rowLength);
  }
  const input = new Tensor('float32', data, [instances.length, ...rowShape]);
  const { scores } = await session.run({ [BENCH_INPUT]: input });
  const width = scores.dims[1];
  return {
    predictions: instances.map((_, i) => Array.from(scores.data.subarray(i * width, (i + 1) * width))),
  };
});
await app.listen({ port: Number(BENCH_PORT), host: '127.0.0.1' });
