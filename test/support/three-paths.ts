/** Sends one record to a model through POST /predict, POST /v2 and a message of the queue, in this process. */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { DATATYPES } from '../../lib/codecs/open-inference/tensor.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { Inputs, Runner, Value } from '../../lib/contract/values.ts';
import { runMessages } from '../../lib/pipeline/serve.ts';
import { endpointOf, handlerOf } from './inference-endpoint.ts';
import { toNested } from './npy.ts';
import { inferRequest } from './open-inference.ts';

export interface Answer {
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

/** The outputs of each record. @throws with the body of an answer that is not 200 */
export async function throughPredict(
  runner: Runner,
  records: readonly Readonly<Record<string, unknown>>[],
): Promise<Answer[][]> {
  const event = {
    rawPath: '/predict',
    headers: {},
    requestContext: { http: { method: 'POST' } },
    body: JSON.stringify({ instances: records }),
    isBase64Encoded: false,
  } as unknown as APIGatewayProxyEventV2;
  const { statusCode, body } = await handlerOf(runner)(event);
  if (statusCode !== 200) throw new Error(`${statusCode} ${body}`);
  const { predictions } = JSON.parse(body as string) as { predictions: string[] };
  return predictions.map((text) => [JSON.parse(text.slice('{value='.length, -1)) as Answer].flat());
}

/** @param tensors with the batch dimension, as /v2 takes them */
export async function throughV2(
  runner: Runner,
  tensors: Readonly<Record<string, Tensor>>,
): Promise<readonly Answer[]> {
  const inputs = Object.entries(tensors).map(([name, tensor]) => ({
    name,
    datatype: DATATYPES[tensor.dtype],
    shape: tensor.shape,
    data: toNested(tensor),
  }));
  const answer = await endpointOf(runner)(inferRequest(inputs));
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.bytes.toString()}`);
  return answer.received().outputs.map(({ shape, data = [] }) => ({ shape, data }));
}

/** @param records tensors as the client gives them, in one batch of messages */
export async function throughQueue(
  runner: Runner,
  records: readonly Readonly<Record<string, Tensor>>[],
): Promise<Answer[][]> {
  const bodies = records.map((record, i) => {
    const inputs: Inputs = new Map(
      Object.entries(record).map(([name, tensor]): [string, Value] => [name, { kind: 'tensor', tensor }]),
    );
    return encodeMessage(`u${i}`, inputs);
  });
  return runMessageBodies(runner, bodies);
}

/** The outputs of each message. @throws the error of a record that failed */
export async function runMessageBodies(runner: Runner, bodies: readonly string[]): Promise<Answer[][]> {
  const messages = bodies.map((body, i) => {
    return { id: `m${i}`, enqueue: { identity: `i${i}`, sentAt: 0, replays: 0 }, body, attempts: 1 };
  });
  const { finished } = await runMessages(messages, (inputs) => runner.run(inputs));
  return finished.map(({ outcome }) => {
    if (!outcome.ok) throw outcome.error;
    return outcome.outputs.map(({ shape, data }) => ({
      shape,
      data: Array.from(data as ArrayLike<unknown>),
    }));
  });
}
