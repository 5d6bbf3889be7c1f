/** Sends the same records through every endpoint of one model's service, and says where two endpoints do not agree. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DType, Tensor } from '../../../lib/contract/tensor.ts';
import { valuesOf } from '../../../lib/contract/tensor-values.ts';
import { AS_WRITTEN } from '../../../lib/contract/verification.ts';
import { openSession, type Session } from '../../../lib/inference/session.ts';
import { randomNumbers } from '../../../onnx-import/samples/inputs.ts';
import { connect } from '../../local/grpc/client.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';
import { arrayOf, type Endpoint, httpEndpoints, type WholeTensors, wholeOf } from './http.ts';
import type { EndpointModel } from './models.ts';
import { queueEndpoints } from './queue.ts';
import { canonical, exactJson, type Output, type Said, type Sent } from './record.ts';
import { recordOf } from './records.ts';

/** Not the default name, which would hide who does not ask for it. */
const JOB = 'endpoints';
/** The codes and statuses of a record that is refused for what it says; anything else is a fault of the service. */
const REFUSALS = new Set(['bad_input', 'bad_request', '400', 'INVALID_ARGUMENT']);
/** onnxruntime, which no endpoint may contradict. */
const ITSELF = 'onnxruntime';
/** Endpoints that take and give whole tensors, with the batch axis. */
const WHOLE = new Set([
  ITSELF,
  'v2 as JSON',
  'v2 as bytes',
  'gRPC as bytes',
  'gRPC as contents',
  ':predict of columns',
]);
/** Records on their way at the same time: as many callers share runs. */
const AT_ONCE = 8;

export interface Compared {
  /** One line for each record whose endpoints do not agree. */
  readonly differences: readonly string[];
  readonly records: number;
  readonly answered: number;
  readonly refused: number;
  /** How often each endpoint was asked. */
  readonly asked: ReadonlyMap<string, number>;
}

export async function compareEndpoints(
  t: Hooks,
  model: EndpointModel,
  records: number,
  seed: number,
): Promise<Compared> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), model.bytes);
  const stack = await testStack(t, {
    config: `jobName: ${JOB}\n${model.config ?? ''}`,
    modelDirectory: folder,
    hasGrpc: true,
  });
  const session = await openSession(join(folder, 'model.onnx'), { threads: 1, optimization: AS_WRITTEN });
  t.after(() => session.close());
  const outputs = session.outputs.map(({ name, dtype }) => ({ name, dtype }));
  const whole = wholeInputs(model);
  const [[first] = []] = model.inputs.map(({ shape }) => shape ?? []);
  const rows = typeof first === 'number' ? first : 1;
  const service = { url: stack.url, job: JOB, call: connect(t, stack.grpcPort as number), whole, rows };
  const endpoints: [string, Endpoint][] = Object.entries({
    [ITSELF]: itself(session, service),
    ...httpEndpoints(service),
    ...(await queueEndpoints(t, stack, JOB)),
  });
  const random = randomNumbers(seed);
  const differences: string[] = [];
  const asked = new Map<string, number>();
  let [answered, refused] = [0, 0];
  const tryOne = async () => {
    const record = recordOf(model, random);
    const said = await Promise.all(
      endpoints.map(async ([name, endpoint]) => [name, await endpoint(record)] as const),
    );
    const all = said.filter((one): one is readonly [string, Said] => one[1] !== undefined);
    for (const [name] of all) asked.set(name, (asked.get(name) ?? 0) + 1);
    if (all.every(([, { ok }]) => ok)) answered += 1;
    else refused += 1;
    const problem = disagreement(all, outputs, rows);
    if (problem)
      differences.push(`${model.title}: ${record.fault ?? 'right'} ${exactJson(record.inputs)}\n${problem}`);
  };
  let left = records;
  const work = async () => {
    while (left-- > 0) await tryOne();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { differences, records, answered, refused, asked };
}

/** The model without a service, which has no error of its own for a record that is wrong. */
function itself(session: Session, service: WholeTensors): Endpoint {
  return async ({ inputs, fault }) => {
    if (fault) return undefined;
    const feeds = session.inputs.map(({ name }): Tensor => {
      const sent = wholeOf(service, name, inputs[name] as Sent);
      const { dtype, shape, data } = sent;
      return dtype === 'string'
        ? { dtype, shape, data: data as string[] }
        : { dtype, shape, data: arrayOf(sent) };
    });
    const texts = feeds.flatMap(({ dtype, data }) => (dtype === 'string' ? (data as string[]) : []));
    // onnxruntime would cut it there.
    if (texts.some((text) => text.includes('\0'))) return undefined;
    const outputs = await session.run(feeds);
    return {
      ok: true,
      outputs: outputs.map(({ name, dtype, shape, data }) => ({
        name,
        shape,
        data: Array.from<unknown>(valuesOf({ dtype, shape, data })),
      })),
    };
  };
}

/** Inputs of rank 0, which have no batch axis. */
function wholeInputs({ inputs }: EndpointModel): ReadonlySet<string> {
  return new Set(inputs.filter(({ shape = [] }) => shape.length === 0).map(({ name }) => name));
}

type Port = { readonly name: string; readonly dtype: DType };

/** What the endpoints said, where it is not one answer or one refusal. */
function disagreement(
  said: readonly (readonly [string, Said])[],
  ports: readonly Port[],
  rows: number,
): string | undefined {
  const words = said.map(
    ([endpoint, one]) =>
      [
        endpoint,
        one.ok ? answerOf(one.outputs, ports, WHOLE.has(endpoint) ? rows : undefined) : refusalOf(one),
      ] as const,
  );
  const kinds = new Map<string, string[]>();
  for (const [endpoint, word] of words) kinds.set(word, [...(kinds.get(word) ?? []), endpoint]);
  if (kinds.size === 1 && ![...kinds.keys()][0]?.startsWith('fault')) return undefined;
  const messages = new Map(said.map(([endpoint, one]) => [endpoint, one.ok ? '' : ` (${one.message})`]));
  return [...kinds]
    .map(([word, names]) => `  ${names.join(', ')}: ${word}${messages.get(names[0] as string)}`)
    .join('\n');
}

function refusalOf({ code, message }: Extract<Said, { ok: false }>): string {
  return REFUSALS.has(code) ? 'refused' : `fault ${code} ${message}`;
}

/**
 * Outputs in one form: the first of equal rows as the record's own, names where the endpoint says them.
 * @param rows of an endpoint that gives whole tensors
 */
function answerOf(outputs: readonly Output[], ports: readonly Port[], rows: number | undefined): string {
  if (outputs.length !== ports.length) return `${outputs.length} outputs`;
  const places = new Map(ports.map(({ name }, i) => [name, i]));
  const ordered = outputs.toSorted(
    (a, b) => (places.get(a.name ?? '') ?? 0) - (places.get(b.name ?? '') ?? 0),
  );
  return ordered
    .map(({ name, shape, data }, i) => {
      const { name: expected, dtype } = ports[i] as Port;
      const hasRows = rows !== undefined && shape[0] === rows;
      const own = hasRows ? shape.slice(1) : shape;
      const values = data
        .slice(0, hasRows ? data.length / rows : undefined)
        .map((value) => canonical(dtype, value));
      return `${name ?? expected} [${own.join(',')}] ${values.join(' ')}`;
    })
    .join('; ');
}
