/**
 * Sends and receives tensors as bytes over HTTP in the Open Inference Protocol (KServe V2, Triton), which is served
 * beside POST /predict. Requests and responses are JSON that describes the tensors, followed by their bytes. `fetch` is
 * enough for it; a deployed API expects signed requests, so this is a `fetch` that signs them where they must be.
 */
import { authorizedFetch } from 'cluster-serving';

const url = process.env['CLUSTER_SERVING_URL'] ?? 'http://localhost:10020';
const send = authorizedFetch(url);

interface Described {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly parameters?: { readonly binary_data_size?: number };
}

/** The model has the name of the job, which the service says. */
const stats = (await (await send(`${url}/v2/models/stats`, {})).json()) as {
  model_stats: { name: string }[];
};
const job = stats.model_stats[0]?.name;
/** -1 is a free dimension, here the rows. */
const model = (await (await send(`${url}/v2/models/${job}`, {})).json()) as { inputs: Described[] };
const [input] = model.inputs;
if (input?.datatype !== 'FP32')
  throw new Error(`${job} is not what this example is for: ${JSON.stringify(model)}`);

/** Sends one tensor of floats and returns all outputs. */
async function infer(
  shape: readonly number[],
  values: Float32Array<ArrayBuffer>,
): Promise<Map<string, Float32Array>> {
  const described = { name: input?.name, datatype: 'FP32', shape };
  const json = new TextEncoder().encode(
    JSON.stringify({
      inputs: [{ ...described, parameters: { binary_data_size: values.byteLength } }],
      parameters: { binary_data_output: true },
    }),
  );
  const response = await send(`${url}/v2/models/${job}/infer`, {
    method: 'POST',
    headers: {
      'content-type': 'application/octet-stream',
      'inference-header-content-length': String(json.byteLength),
    },
    body: new Blob([json, values]),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  const bytes = await response.arrayBuffer();
  let at = Number(response.headers.get('inference-header-content-length'));
  const { outputs } = JSON.parse(new TextDecoder().decode(bytes.slice(0, at))) as { outputs: Described[] };
  return new Map(
    outputs.map(({ name, parameters: { binary_data_size: size = 0 } = {} }) => {
      // A view, not a copy, because the service aligns its bytes to 8.
      const data = new Float32Array(bytes, at, size / Float32Array.BYTES_PER_ELEMENT);
      at += size;
      return [name, data];
    }),
  );
}

const rows = 32;
const shape = [rows, ...input.shape.slice(1)];
const length = shape.reduce((product, dim) => product * dim, 1);
const pixels = Float32Array.from({ length }, (_, i) => ((i * 31) % 97) * 2.6);
const outputs = await infer(shape, pixels);
for (const [name, data] of outputs) console.log(`${name}: ${rows} rows of ${data.length / rows}`);

// The same as JSON: more bytes, and both sides convert numbers to and from text.
const body = JSON.stringify({
  inputs: [{ name: input.name, datatype: 'FP32', shape, data: Array.from(pixels) }],
});
const answer = await send(`${url}/v2/models/${job}/infer`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body,
});
const { outputs: asJson } = (await answer.json()) as { outputs: { name: string; data: number[] }[] };
const isSame = asJson.every(({ name, data }) =>
  data.every((value, i) => Math.fround(value) === outputs.get(name)?.[i]),
);
console.log(`${pixels.byteLength} bytes, ${body.length} as JSON; the same answer: ${isSame}`);
