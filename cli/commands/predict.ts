/**
 * `cluster-serving predict`. A request has a limit of bytes and of instances, so many images become several requests;
 * the predictions are in the order of the images.
 */
import { readCanaryKey } from '../../lib/contract/enqueue.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { predictionOf } from '../../sdk/http/predictions.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import { inputText, isJson, readInput } from '../records.ts';
import { labelsText, namesOfClasses } from '../results.ts';
import {
  CANARY_KEY,
  findService,
  JOB,
  MODEL,
  notRunning,
  post,
  SERVICE_OPTIONS,
  type Service,
  textsOf,
} from '../service.ts';
import { csvText, inFile, partsOf, readTable, type Table } from '../table.ts';

const TABLE = {
  value: 'file',
  about: 'CSV file, whose first line names the columns; - reads stdin',
} as const;
const TEXT = { value: 'text', about: 'text for a model that reads texts' } as const;
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
  usage: ['[options] <image>... | <request.json> | - | --file <table.csv> | --text <text>'],
  about: `Sends images, a JSON request {"instances": [...]} (- reads it from stdin), the rows of a table, or a text, to POST
/predict and prints the predictions.`,
  options: {
    file: TABLE,
    text: TEXT,
    input: INPUT,
    'show-input': {
      about: 'print the tensors that the model gets, instead of predictions; reads the model from S3',
    },
    config: { short: 'c', value: 'file', about: 'config.yaml of the job, for --show-input of a deployment' },
    ...SERVICE_OPTIONS,
    model: MODEL,
    'canary-key': CANARY_KEY,
    bucket: { group: 'Connection', value: 'name', about: 'bucket of another service, for --show-input' },
    job: JOB,
  },
  async run(
    { file, text, input, model, 'show-input': isShown = false, 'canary-key': key, ...values },
    output,
    paths,
  ) {
    const canaryKey = readCanaryKey(key);
    const given = [file !== undefined, text !== undefined, paths.length > 0].filter(Boolean);
    if (given.length !== 1) {
      throw wrongUse(
        'predict what? Give images, a JSON file, - for stdin, --file and a CSV file, or --text and a text',
      );
    }
    const service = await findService(values);
    if (!service) return notRunning(values, output, '--url or --stack');
    if (isShown && file !== undefined) throw wrongUse('--show-input takes no table; give a JSON request');
    if (isShown && model !== undefined) throw wrongUse("--show-input shows what the job's own model gets");
    const asking = { service, canaryKey, model };
    if (file !== undefined) return predictTable(await readTable(file), asking, output);
    const predictions: string[] = [];
    const lines: string[] = [];
    const names = output.json ? undefined : namesOfClasses({ ...service, job: model ?? service.job });
    const body = text === undefined ? undefined : JSON.stringify({ instances: [{ text }] });
    const asked = body === undefined ? requests(paths, input) : [{ names: [], instances: [], body }];
    if (isShown) {
      const { showInputs } = await import('./show-input.ts');
      return showInputs(bodiesOf(asked), service, values, output);
    }
    for await (const request of asked) {
      const answered = await ask(asking, request);
      predictions.push(...answered.map((one) => one.text));
      const shown = await Promise.all(answered.map((one) => lineOf(one, names)));
      lines.push(...shown.map((line, i) => (request.body ? line : `${request.names[i]}  ${line}`)));
    }
    output.answer({ predictions }, lines.join('\n'));
    return EXIT.ok;
  },
});

async function* bodiesOf(
  asked: AsyncIterable<PredictRequest> | Iterable<PredictRequest>,
): AsyncGenerator<string> {
  for await (const { body, instances } of asked) yield body ?? JSON.stringify({ instances });
}

/** Sends the rows of a table, some at a time; a prediction is printed with its line. */
async function predictTable(table: Table, { service, ...asked }: Asking, output: Output): Promise<number> {
  const { name, columns, rows } = table;
  const progress = showProgress(output.json);
  const predictions: Answered[] = [];
  try {
    for (const part of partsOf(rows)) {
      const body = csvText(columns, part);
      const sent = { path: '/predict', body, type: 'text/csv', command: 'predict', ...asked };
      const answered = await post(service, sent, answersOf).catch((error: unknown) => {
        throw inFile(error, name, part);
      });
      predictions.push(...answered);
      progress.update({ done: predictions.length, total: rows.length });
    }
  } finally {
    progress.end();
  }
  const names = output.json ? undefined : namesOfClasses(service);
  const shown = await Promise.all(predictions.map((one) => lineOf(one, names)));
  const lines = shown.map((line, i) => `${name}:${rows[i]?.line}  ${line}`);
  output.answer({ predictions: predictions.map(({ text }) => text) }, lines.join('\n'));
  return EXIT.ok;
}

interface Answered {
  /** `{value=…}` */
  readonly text: string;
  /** The model's version. */
  readonly version: string;
}

/** The text, and the labels of the best classes. @param names undefined: they are not shown */
async function lineOf(
  { text, version }: Answered,
  names?: ReturnType<typeof namesOfClasses>,
): Promise<string> {
  const facts = await names?.(version);
  if (!facts?.outputs.some(({ labels }) => labels)) return text;
  return text + labelsText(predictionOf(text, version, facts));
}

/** The texts of an answer. */
function answersOf(
  { predictions }: Readonly<Record<string, unknown>>,
  version: string,
): Answered[] | undefined {
  return textsOf(predictions)?.map((text) => ({ text, version }));
}

interface Asking {
  readonly service: Service;
  readonly canaryKey: string | undefined;
  readonly model: string | undefined;
}

interface PredictRequest {
  /** The names of the images. */
  readonly names: readonly string[];
  readonly instances: readonly Record<string, { b64: string }>[];
  /** The user's own request, which is sent unchanged. */
  readonly body?: string;
}

/** Sends a request, or its two halves if the answer would be too large. */
async function ask(asking: Asking, request: PredictRequest): Promise<readonly Answered[]> {
  const { names, instances, body = JSON.stringify({ instances }) } = request;
  const { service, ...asked } = asking;
  try {
    return await post(service, { path: '/predict', body, command: 'predict', ...asked }, answersOf);
  } catch (error) {
    const isTooLarge = error instanceof ServingError && error.code === 'too_large';
    if (!isTooLarge || instances.length < 2) throw error;
    const middle = instances.length >> 1;
    const first = { names: names.slice(0, middle), instances: instances.slice(0, middle) };
    const second = { names: names.slice(middle), instances: instances.slice(middle) };
    return [...(await ask(asking, first)), ...(await ask(asking, second))];
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
      yield { names, instances, body: inputText(content, path) };
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
