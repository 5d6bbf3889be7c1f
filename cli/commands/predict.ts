/**
 * `cluster-serving predict`. A request has a limit of bytes and of instances, so many images become several requests;
 * the predictions are in the order of the images.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import { type Fetch, postJson, withToken } from '../../sdk/fetch.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { EXIT } from '../output.ts';
import { isJson, readInput } from '../records.ts';
import { findService, JOB, notRunning, SERVICE_OPTIONS } from '../service.ts';

/** The limit of one request in base64, below the 6 MiB that the service accepts. */
const REQUEST_BYTES = 4 * 1024 * 1024;
const REQUEST_IMAGES = 100;

export const INPUT = {
  value: 'name',
  default: 'image',
  about: 'input of the model that images are for; any name will do for a model with one input',
} as const;

export const command = defineCommand({
  name: 'predict',
  usage: ['[options] <image>... | <request.json> | -'],
  about: `Sends images, or a JSON request {"instances": [...]} (- reads it from stdin), to POST /predict and prints the
predictions.`,
  options: { input: INPUT, ...SERVICE_OPTIONS, job: JOB },
  async run({ input, ...values }, output, paths) {
    if (paths.length === 0) throw wrongUse('predict what? Give images, a JSON file, or - for stdin');
    const service = await findService(values);
    if (!service) return notRunning(values, output);
    if (service.http === undefined) throw wrongUse('predict needs the HTTPS API: pass --url');
    const send = withToken(undefined, service.token);
    const predictions: string[] = [];
    const lines: string[] = [];
    for await (const request of requests(paths, input)) {
      const answered = await ask(`${service.http}/predict`, request, send);
      predictions.push(...answered);
      lines.push(...answered.map((text, i) => (request.body ? text : `${request.names[i]}  ${text}`)));
    }
    output.answer({ predictions }, lines.join('\n'));
    return EXIT.ok;
  },
});

interface PredictRequest {
  /** The names of the images. */
  readonly names: readonly string[];
  readonly instances: readonly Record<string, { b64: string }>[];
  /** The user's own request, which is sent unchanged. */
  readonly body?: string;
}

/** Sends a request, or its two halves if the answer would be too large. */
async function ask(url: string, request: PredictRequest, send?: Fetch): Promise<readonly string[]> {
  const { names, instances, body } = request;
  try {
    const answer = await postJson(url, body ?? JSON.stringify({ instances }), undefined, send);
    const { predictions } = (answer ?? {}) as { predictions?: readonly string[] };
    if (Array.isArray(predictions)) return predictions;
    throw wrongUse(`${url} answered, but not as this service does`);
  } catch (error) {
    const isTooLarge = error instanceof ServingError && error.code === 'too_large';
    if (!isTooLarge || instances.length < 2) throw error;
    const middle = instances.length >> 1;
    const first = { names: names.slice(0, middle), instances: instances.slice(0, middle) };
    const second = { names: names.slice(middle), instances: instances.slice(middle) };
    return [...(await ask(url, first, send)), ...(await ask(url, second, send))];
  }
}

async function* requests(paths: readonly string[], input: string): AsyncGenerator<PredictRequest> {
  let names: string[] = [];
  let instances: Record<string, { b64: string }>[] = [];
  let bytes = 0;
  for (const path of paths) {
    const content = await readInput(path);
    if (isJson(content)) {
      if (paths.length > 1) throw wrongUse(`${path} is a JSON request, which must be sent alone`);
      yield { names, instances, body: content.toString('utf8') };
      return;
    }
    if (content.length === 0) throw new ServingError('bad_request', `${path} is empty`);
    const b64 = content.toString('base64');
    if (names.length > 0 && (bytes + b64.length > REQUEST_BYTES || names.length === REQUEST_IMAGES)) {
      yield { names, instances };
      [names, instances, bytes] = [[], [], 0];
    }
    names.push(path);
    instances.push({ [input]: { b64 } });
    bytes += b64.length;
  }
  yield { names, instances };
}
