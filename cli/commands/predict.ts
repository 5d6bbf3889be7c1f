/**
 * `cluster-serving predict`. In: images, or one JSON request. Out: one prediction per image or instance, in order.
 * Trap: a request has a limit of bytes and of instances; many images become several requests.
 */

import { ServingError } from '../../lib/contract/errors.ts';
import { postJson } from '../../sdk/fetch.ts';
import { COMMON_HELP, defineCommand, wrongUse } from '../command.ts';
import { isJson, readInput } from '../files.ts';
import { EXIT } from '../output.ts';
import { findService, JOB_HELP, JOB_OPTION, notRunning, SERVICE_HELP, SERVICE_OPTIONS } from '../service.ts';

const HELP = `Usage: cluster-serving predict [options] <image>... | <request.json> | -

Sends images, or a JSON request {"instances": [...]} (- reads it from stdin), to POST /predict and prints the answers.

      --input <name>      the model's input that images are for (default image; with one input any name will do)
${SERVICE_HELP}
${JOB_HELP}
${COMMON_HELP}`;

/** Of one request, in base64: below the 6 MiB that the service takes. */
const REQUEST_BYTES = 4 * 1024 * 1024;
const REQUEST_IMAGES = 100;

export const predict = defineCommand({
  name: 'predict',
  help: HELP,
  options: { input: { type: 'string' }, ...SERVICE_OPTIONS, ...JOB_OPTION },
  takesArguments: true,
  async run({ input = 'image', ...values }, output, paths) {
    const [first] = paths;
    if (first === undefined) throw wrongUse('predict what? Give images, a JSON file, or - for stdin');
    const service = await findService(values);
    if (!service) return notRunning(values, output);
    if (service.http === undefined) throw wrongUse('predict needs the HTTPS API: say --url');
    const url = `${service.http.replace(/\/+$/, '')}/predict`;
    const predictions: string[] = [];
    const lines: string[] = [];
    for await (const request of requests(paths, input)) {
      const answered = await ask(url, request);
      predictions.push(...answered);
      lines.push(...answered.map((text, i) => (request.names ? `${request.names[i]}  ${text}` : text)));
    }
    output.answer({ predictions }, lines.join('\n'));
    return EXIT.ok;
  },
});

/** One request, or its halves where the answer would be too large; what somebody wrote is sent as it is. */
async function ask(url: string, request: PredictRequest): Promise<readonly string[]> {
  const { names, instances } = request;
  try {
    const body = request.body ?? JSON.stringify({ instances });
    return predictionsOf(await postJson(url, body), url);
  } catch (error) {
    const halves = error instanceof ServingError && error.code === 'too_large' && instances.length > 1;
    if (!halves) throw error;
    const middle = instances.length >> 1;
    const first = { names: names?.slice(0, middle), instances: instances.slice(0, middle) };
    const second = { names: names?.slice(middle), instances: instances.slice(middle) };
    return [...(await ask(url, first)), ...(await ask(url, second))];
  }
}

function predictionsOf(answer: unknown, url: string): readonly string[] {
  const { predictions } = (answer ?? {}) as { predictions?: readonly string[] };
  if (Array.isArray(predictions)) return predictions;
  throw wrongUse(`${url} answered, but not as this service does`);
}

interface PredictRequest {
  /** Of the images; undefined for a request somebody wrote. */
  readonly names: readonly string[] | undefined;
  readonly instances: readonly Record<string, { b64: string }>[];
  /** What somebody wrote. */
  readonly body?: string;
}

async function* requests(paths: readonly string[], input: string): AsyncGenerator<PredictRequest> {
  let names: string[] = [];
  let instances: Record<string, { b64: string }>[] = [];
  let bytes = 0;
  const gathered = () => ({ names, instances });
  for (const path of paths) {
    const content = await readInput(path);
    if (isJson(content)) {
      if (paths.length > 1) throw wrongUse(`${path} is a JSON request, which goes alone`);
      yield { names: undefined, instances: [], body: content.toString('utf8') };
      return;
    }
    if (content.length === 0) throw new ServingError('bad_request', `${path} is empty`);
    const b64 = content.toString('base64');
    if (names.length > 0 && (bytes + b64.length > REQUEST_BYTES || names.length === REQUEST_IMAGES)) {
      yield gathered();
      names = [];
      instances = [];
      bytes = 0;
    }
    names.push(path);
    instances.push({ [input]: { b64 } });
    bytes += b64.length;
  }
  yield gathered();
}
